package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/core"
)

// Inspect counts what the queue holds. It reads the body of one job, the next to
// run, for its age.
func (d *Driver) Inspect(ctx context.Context, b core.Binding) (core.QueueStats, error) {
	o, err := d.optionsOf(b)
	if err != nil {
		return core.QueueStats{}, err
	}
	k := newKeys(b.Queue, o)
	var ready, delayed, dead *goredis.IntCmd
	var next *goredis.StringCmd
	var members *goredis.StringSliceCmd
	doing := "count the jobs of " + b.Queue
	if _, err := d.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		ready, delayed, dead = p.LLen(ctx, k.ready), p.ZCard(ctx, k.delay), p.LLen(ctx, k.dead)
		next, members = p.LIndex(ctx, k.ready, -1), p.SMembers(ctx, k.members)
		return nil
	}); err != nil && err != goredis.Nil {
		return core.QueueStats{}, d.failure(doing, err)
	}
	var held []*goredis.IntCmd
	if len(members.Val()) > 0 {
		if _, err := d.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for _, id := range members.Val() {
				held = append(held, p.LLen(ctx, k.processing+id))
			}
			return nil
		}); err != nil {
			return core.QueueStats{}, d.failure(doing, err)
		}
	}
	inFlight := int64(0)
	for _, n := range held {
		inFlight += n.Val()
	}
	stats := core.QueueStats{Ready: new(ready.Val()), Delayed: new(delayed.Val()), Dead: new(dead.Val()), InFlight: &inFlight}
	if next.Err() == nil {
		if job, err := core.Decode([]byte(next.Val())); err == nil {
			stats.OldestSeconds = new(max(time.Since(time.Unix(job.CreatedAt, 0)).Seconds(), 0))
		}
	}
	return stats, nil
}
