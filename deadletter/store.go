package deadletter

import (
	"context"
	"errors"

	"github.com/goconsumer/consumer/core"
)

// Store is where one queue's dead letters are.
type Store interface {
	// Count returns how many entries there are.
	Count(ctx context.Context) (int64, error)
	// Visit shows every entry once, oldest first, a bounded page at a time, and
	// moves nothing by it. An error of visit ends the visit and is returned;
	// ErrEnough ends it without one. Entries that arrive meanwhile are not shown;
	// entries that somebody else takes away meanwhile may hide others from this
	// visit, the next one shows them.
	Visit(ctx context.Context, visit func(Page) error) error
}

// Page is a part of the entries, valid until the visit of it returns. One
// goroutine uses it.
type Page interface {
	Entries() []*Entry // oldest first
	// Remove takes exactly these entries of the page away, also when ctx has
	// ended, and returns how many were still there. The others keep their places.
	Remove(ctx context.Context, entries []*Entry) (removed int, err error)
}

// Mover is implemented by pages whose store can put a job into some targets in
// the same step that removes its entry, so that no interruption doubles it.
type Mover interface {
	// Move stores msgs[i] at the target in the place of entries[i], in their
	// order, and returns how many entries were still there to be moved. After an
	// error each entry is either moved or where it was. errors.ErrUnsupported:
	// not to this target; nothing was done.
	Move(ctx context.Context, to Target, entries []*Entry, msgs []core.Message) (moved int, err error)
}

// Opener is implemented by drivers that can open the transport's own dead-letter
// place of a queue.
type Opener interface {
	OpenDeadLetters(ctx context.Context, b core.Binding) (Store, error)
}

// Excluder is implemented by stores that can keep a second replay out, since two at
// once would publish every job twice.
type Excluder interface {
	// Exclude returns a context for the replay, which ends when the right is lost,
	// and what gives it back. An error says that another replay is running.
	Exclude(ctx context.Context) (replay context.Context, release func(), err error)
}

// ErrEnough ends a visit early.
var ErrEnough = errors.New("enough entries seen")

// Select visits the entries that a filter lets through, oldest first, up to the
// filter's limit.
func Select(ctx context.Context, s Store, f Filter, visit func(*Entry) error) error {
	left := f.Limit
	return s.Visit(ctx, func(page Page) error {
		for _, e := range page.Entries() {
			if !f.Match(e) {
				continue
			}
			if err := visit(e); err != nil {
				return err
			}
			if left--; left == 0 {
				return ErrEnough
			}
		}
		return nil
	})
}
