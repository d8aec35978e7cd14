package redis

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
)

// DeadLetters is one queue's dead letters: a store to read and replay,
// and a sink for processes whose transport is another. It is safe for concurrent
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
