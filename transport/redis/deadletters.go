package redis

import (
	"context"
	"fmt"
	"log/slog"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
)

// Bounds of one page of dead letters: a page of large ones is still held in
// memory only in part (see page).
const (
	deadPage      = 100
	deadPageBytes = 8 << 20
)

// DeadLetters is one queue's dead letters: a store to read and replay, and a sink for processes whose transport is another. It is safe for concurrent
// use.
type DeadLetters struct {
	driver *Driver
	keys   keys
	policy core.DeadLetterPolicy
	log    *slog.Logger
	drop   func(n int, ids []string) // told of entries that on_full dropped
}

var (
	_ deadletter.Opener = (*Driver)(nil)
	_ deadletter.Store  = (*DeadLetters)(nil)
	_ core.DeadSink     = (*DeadLetters)(nil)
)

// OpenDeadLetters opens the list of b's queue.
func (d *Driver) OpenDeadLetters(_ context.Context, b core.Binding) (deadletter.Store, error) {
	return d.DeadLetters(b, nil)
}

// DeadLetters opens the list of b's queue; dropped, if not nil, hears of entries
// that gave way to newer ones.
func (d *Driver) DeadLetters(b core.Binding, dropped func(n int, ids []string)) (*DeadLetters, error) {
	o, err := d.optionsOf(b)
	if err != nil {
		return nil, err
	}
	if dropped == nil {
		dropped = func(n int, ids []string) {
			b.Logger.Warn("dead letters dropped, the list is full (on_full: drop_oldest)", "queue", b.Queue, "dropped", n, "ids", ids)
		}
	}
	return &DeadLetters{driver: d, keys: newKeys(b, o), policy: b.DeadLetters, log: b.Logger, drop: dropped}, nil
}

// Count returns how many there are.
func (l *DeadLetters) Count(ctx context.Context) (int64, error) {
	sum := int64(0)
	for _, key := range l.keys.graves() {
		n, err := l.count(ctx, key)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

func (l *DeadLetters) count(ctx context.Context, key string) (int64, error) {
	n, err := l.driver.client.LLen(ctx, key).Result()
	return n, l.driver.failure("count "+key, err)
}

// Visit reads the jobs, then what is kept apart because it is none.
func (l *DeadLetters) Visit(ctx context.Context, visit func([]*deadletter.Entry) ([]*deadletter.Entry, error)) error {
	for _, key := range l.keys.graves() {
		switch err := l.visit(ctx, key, visit); {
		case err == deadletter.ErrEnough:
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// visit reads one list from its old end in pages. New entries come in at the
// other end, so places counted from the old end stay; it ends with the newest one
// of its beginning, or a replay of jobs that die again would never end.
func (l *DeadLetters) visit(ctx context.Context, key string, visit func([]*deadletter.Entry) ([]*deadletter.Entry, error)) error {
	left, err := l.count(ctx, key)
	if err != nil {
		return err
	}
	kept, size := int64(0), int64(deadPage)
	for left > 0 {
		page, err := l.page(ctx, key, kept, min(size, left))
		if err != nil || len(page) == 0 {
			return err
		}
		left -= int64(len(page))
		remove, visitErr := visit(page)
		if err := l.remove(ctx, key, remove); err != nil {
			return err
		}
		if visitErr != nil {
			return visitErr
		}
		kept += int64(len(page) - len(remove))
		size = pageSize(page)
	}
	return nil
}

// page reads entries after the kept oldest ones, oldest first.
func (l *DeadLetters) page(ctx context.Context, key string, kept, size int64) ([]*deadletter.Entry, error) {
	stored, err := l.driver.client.LRange(ctx, key, -kept-size, -kept-1).Result()
	if err != nil {
		return nil, l.driver.failure("read "+key, err)
	}
	page := make([]*deadletter.Entry, len(stored))
	for i, text := range stored {
		page[len(stored)-1-i] = deadletter.Read([]byte(text))
	}
	return page, nil
}

// pageSize is how many entries like the last ones make a page of bounded size.
func pageSize(last []*deadletter.Entry) int64 {
	bytes := 0
	for _, e := range last {
		bytes += len(e.Stored)
	}
	return min(max(int64(deadPageBytes)*int64(len(last))/int64(max(bytes, 1)), 1), deadPage)
}

// remove takes exactly these entries off the list, one each: byte-identical ones
// may be there twice. It is done even when ctx has ended, for they are published
// by then.
func (l *DeadLetters) remove(ctx context.Context, key string, entries []*deadletter.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commandTimeout)
	defer cancel()
	_, err := l.driver.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for _, e := range entries {
			p.LRem(ctx, key, -1, e.Stored)
		}
		return nil
	})
	return l.driver.failure("remove entries of "+key, err)
}

// Store adds records of jobs that live elsewhere; max_len and on_full are
// honoured. An error for each record, nil when all are stored.
func (l *DeadLetters) Store(ctx context.Context, records []*core.DeadRecord) []error {
	errs := make([]error, len(records))
	failed := false
	for start := 0; start < len(records); start += maxPublish {
		chunk := records[start:min(start+maxPublish, len(records))]
		for i, err := range l.store(ctx, chunk) {
			errs[start+i] = err
			failed = failed || err != nil
		}
	}
	if !failed {
		return nil
	}
	return errs
}

func (l *DeadLetters) store(ctx context.Context, records []*core.DeadRecord) []error {
	args := []any{l.policy.MaxLen, drops(l.policy.OnFull)}
	for _, r := range records {
		args = append(args, deadletter.Append(nil, r))
	}
	errs := make([]error, len(records))
	result, err := l.driver.scripts.bury.Run(ctx, l.driver.client, []string{l.keys.dead, l.keys.deadRaw}, args...).Slice()
	if err != nil {
		for i := range errs {
			errs[i] = l.driver.failure("store dead letters in "+l.keys.dead, err)
		}
		return errs
	}
	r := readReply(result)
	for i := range errs {
		switch r.codes[i] {
		case '1':
		case 'F':
			errs[i] = core.ErrDeadLettersFull
		default:
			errs[i] = fmt.Errorf("store dead letters in %s: redis at %s answered: %s", l.keys.dead, l.driver.template.Addr, r.fault)
		}
	}
	if len(r.dropped) > 0 {
		l.drop(len(r.dropped), deadIDs(r.dropped))
	}
	return errs
}

// deadIDs are the job ids of stored records.
func deadIDs(stored []string) []string {
	ids := make([]string, len(stored))
	for i, record := range stored {
		ids[i] = deadletter.Read([]byte(record)).ID
	}
	return ids
}
