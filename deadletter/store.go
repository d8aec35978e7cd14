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
	// moves nothing by it. Exactly those entries that visit returns are removed
	// then, whether or not it returns an error as well. An error of visit ends
	// the visit and is returned; ErrEnough ends it without one. Entries that
	// arrive meanwhile are not shown.
	Visit(ctx context.Context, visit func(page []*Entry) (remove []*Entry, err error)) error
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
	return s.Visit(ctx, func(page []*Entry) ([]*Entry, error) {
		for _, e := range page {
			if !f.Match(e) {
				continue
			}
			if err := visit(e); err != nil {
				return nil, err
			}
			if left--; left == 0 {
				return nil, ErrEnough
			}
		}
		return nil, nil
	})
}
