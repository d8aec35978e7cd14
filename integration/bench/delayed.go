package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// loadDue fills the delay set with jobs whose time has come.
func loadDue(ctx context.Context, b *bench, t trial) error {
	return loadDelayed(ctx, b, t, func(n int) time.Time { return time.Now().Add(-time.Minute) })
}

// lead is how long before the first due time the consumer can start.
const lead = 2 * time.Second

// loadSpread fills the delay set with due times spread evenly over t.Over.
func loadSpread(ctx context.Context, b *bench, t trial) error {
	first := time.Now().Add(lead).Truncate(time.Millisecond)
	return loadDelayed(ctx, b, t, func(n int) time.Time {
		return first.Add(time.Duration(n) * t.Over / time.Duration(t.Jobs)).Truncate(time.Millisecond)
	})
}

func loadDelayed(ctx context.Context, b *bench, t trial, due func(n int) time.Time) error {
	const chunk = 1000
	for n := 0; n < t.Jobs; n += chunk {
		members := make([]redis.Z, 0, chunk)
		for i := n; i < min(n+chunk, t.Jobs); i++ {
			at := due(i)
			members = append(members, redis.Z{Score: float64(at.UnixMilli()), Member: encodeJob(i, at.UnixNano())})
		}
		if err := b.rdb.ZAdd(ctx, delayKey, members...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// promote measures how fast due jobs leave the delay set, while they are worked
// off, too.
func promote(ctx context.Context, addr string, t trial, c contender) (values, error) {
	const interval = time.Millisecond
	rdb := dial(addr)
	defer rdb.Close()
	count := newCounter(t)
	begin := time.Now()
	stop, err := c.start(ctx, addr, t, count.handle)
	if err != nil {
		return nil, err
	}
	for {
		left, err := rdb.ZCard(ctx, delayKey).Result()
		if err != nil {
			return nil, err
		}
		if left == 0 {
			break
		}
		if err := sleep(ctx, interval); err != nil {
			return nil, err
		}
	}
	promoted := time.Since(begin)
	if err := await(ctx, count.all, count.n.Load, t); err != nil {
		return nil, err
	}
	handled := time.Since(begin)
	return values{
		"promoted_per_s": float64(t.Jobs) / promoted.Seconds(),
		"handled_per_s":  float64(t.Jobs) / handled.Seconds(),
	}, errors.Join(stop(), count.exact())
}

// lateness measures how long after its due time each job starts; one that is
// early is a fault.
func lateness(ctx context.Context, addr string, t trial, c contender) (values, error) {
	late := newDurations(t.Jobs)
	stop, err := c.start(ctx, addr, t, func(_ context.Context, p orderPaid) error {
		late.add(time.Since(time.Unix(0, p.At)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := await(ctx, late.done, late.count, t); err != nil {
		return nil, err
	}
	v := late.values()
	if v["min_ms"] < 0 {
		err = errors.New("a job ran before it was due")
	}
	return v, errors.Join(err, stop())
}
