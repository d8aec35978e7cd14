package redis

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
	"github.com/goconsumer/consumer/internal/fault"
)

// Bounds of one page of dead letters. The first page is small, the next ones are
// as large as entries like those of the page before allow: so a list of large
// entries is never in memory but for a small part.
const (
	firstPage     = 4
	deadPage      = 1000
	deadPageBytes = 4 << 20
)

// Visit reads the jobs, then what is kept apart because it is none. It ends with
// the newest entries of its beginning, or a replay of jobs that die again would
// never end.
func (l *DeadLetters) Visit(ctx context.Context, visit func(deadletter.Page) error) error {
	graves := l.keys.graves()
	sizes := make([]int64, len(graves))
	for i, key := range graves {
		var err error
		if sizes[i], err = l.count(ctx, key); err != nil {
			return err
		}
	}
	for i, key := range graves {
		switch err := l.visit(ctx, key, sizes[i], visit); {
		case err == deadletter.ErrEnough:
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// visit reads the oldest entries of one list in pages. New entries come in at the
// other end, so places counted from the old end stay.
func (l *DeadLetters) visit(ctx context.Context, key string, left int64, visit func(deadletter.Page) error) error {
	for kept, size := int64(0), int64(firstPage); left > 0; {
		page, err := l.page(ctx, key, kept, min(size, left))
		if err != nil || len(page.entries) == 0 {
			return err
		}
		if err := visit(page); err != nil {
			return err
		}
		left -= int64(len(page.entries))
		kept += int64(len(page.entries) - page.taken)
		size = nextSize(page)
	}
	return nil
}

// page reads entries after the kept oldest ones, oldest first.
func (l *DeadLetters) page(ctx context.Context, key string, kept, size int64) (*deadListPage, error) {
	stored, err := l.driver.client.LRange(ctx, key, -kept-size, -kept-1).Result()
	if err != nil {
		return nil, l.driver.failure("read "+key, err)
	}
	page := &deadListPage{list: l, key: key, kept: kept, entries: make([]*deadletter.Entry, len(stored)), gone: make([]bool, len(stored))}
	for i, text := range stored {
		at := len(stored) - 1 - i
		page.entries[at] = deadletter.Read([]byte(text))
		page.entries[at].Native = at
	}
	return page, nil
}

// nextSize is how many entries like the last ones make a page of bounded size.
func nextSize(last *deadListPage) int64 {
	bytes := 1
	for _, e := range last.entries {
		bytes += len(e.Stored)
	}
	n := int64(len(last.entries))
	return max(min(deadPageBytes*n/int64(bytes), 8*n, deadPage), 1)
}

// deadListPage is a run of neighbours of one list. An entry's Native is its index.
type deadListPage struct {
	list    *DeadLetters
	key     string
	kept    int64 // entries that are older than the page's
	entries []*deadletter.Entry
	gone    []bool // no longer in the list
	taken   int    // how many are gone
}

var (
	_ deadletter.Page  = (*deadListPage)(nil)
	_ deadletter.Mover = (*deadListPage)(nil)
)

// Entries are those of the page, oldest first.
func (p *deadListPage) Entries() []*deadletter.Entry { return p.entries }

// Remove takes the entries away in one step a chunk.
func (p *deadListPage) Remove(ctx context.Context, entries []*deadletter.Entry) (int, error) {
	return p.takeAll(ctx, entries, nil, "")
}

// Move puts the messages into a queue of the same database in one step a chunk.
// Those of one priority list keep their order.
func (p *deadListPage) Move(ctx context.Context, to deadletter.Target, entries []*deadletter.Entry, msgs []core.Message) (moved int, err error) {
	port, ok := to.(*port)
	if !ok || !port.reachedBy(p.list.driver) {
		return 0, errors.ErrUnsupported
	}
	port.mu.RLock()
	defer port.mu.RUnlock()
	if port.closed {
		return 0, core.ErrClosed
	}
	parts, bodies := make([][]*deadletter.Entry, len(port.keys.lists)), make([][][]byte, len(port.keys.lists))
	for i, m := range msgs {
		list := port.keys.place(m.Priority) - 1
		parts[list] = append(parts[list], entries[i])
		bodies[list] = append(bodies[list], port.keys.dressed(m.Body, 0))
	}
	for list, part := range parts {
		n, err := p.takeAll(ctx, part, bodies[list], port.keys.lists[list])
		moved += n
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// takeAll takes entries in bounded calls and stores the bodies in the ready list
// in their place; without one nothing is stored.
func (p *deadListPage) takeAll(ctx context.Context, entries []*deadletter.Entry, bodies [][]byte, ready string) (taken int, err error) {
	for len(entries) > 0 {
		n, bytes := 0, 0
		for n < len(entries) && n < maxPublish && (n == 0 || bytes < maxPublishBytes) {
			bytes += len(entries[n].Stored)
			if ready != "" {
				bytes += len(bodies[n])
			}
			n++
		}
		part := bodies
		if ready != "" {
			part, bodies = bodies[:n], bodies[n:]
		}
		done, err := p.take(ctx, entries[:n], part, ready)
		taken += done
		if err != nil {
			return taken, err
		}
		entries = entries[n:]
	}
	return taken, nil
}

// take is one call of the script. It does not end with ctx, for then nobody would
// know what it did.
func (p *deadListPage) take(ctx context.Context, entries []*deadletter.Entry, bodies [][]byte, ready string) (int, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTimeout)
	defer cancel()
	keys, doing := []string{p.key}, "remove entries of "+p.key
	if ready != "" {
		keys, doing = append(keys, ready), "move entries of "+p.key+" to "+ready
	}
	places, first, last := p.places(entries)
	args := append(make([]any, 0, 3+3*len(entries)), first, last, rand.Text())
	for i, e := range entries {
		args = append(args, places[i], e.Stored)
		if ready != "" {
			args = append(args, bodies[i])
		}
	}
	codes, err := "", fault.At(fault.RedisTakeAsked)
	if err == nil {
		codes, err = p.list.driver.scripts.take.Run(ctx, p.list.driver.client, keys, args...).Text()
	}
	if err == nil {
		err = fault.At(fault.RedisTaken)
	}
	if err != nil {
		return 0, p.list.driver.failure(doing, err)
	}
	done := 0
	for i, e := range entries {
		p.gone[e.Native.(int)] = true
		if codes[i] == '1' {
			done++
		}
	}
	p.taken += len(entries)
	return done, nil
}

// places are where entries are in the list now, counted from its old end, and the
// first and last of them.
func (p *deadListPage) places(entries []*deadletter.Entry) (places []int64, first, last int64) {
	now, place := make([]int64, len(p.entries)), p.kept
	for i := range p.entries {
		now[i] = place
		if !p.gone[i] {
			place++
		}
	}
	places = make([]int64, len(entries))
	for i, e := range entries {
		places[i] = now[e.Native.(int)]
	}
	return places, places[0], places[len(places)-1]
}
