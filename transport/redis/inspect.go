package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/core"
)

// Inspect counts what the queue holds. It reads the body of one job of each ready
// list, the next to run, for its age.
func (d *Driver) Inspect(ctx context.Context, b core.Binding) (core.QueueStats, error) {
	o, err := d.optionsOf(b)
	if err != nil {
		return core.QueueStats{}, err
	}
	k := newKeys(b, o)
	var ready, dead []*goredis.IntCmd
	var delayed, paused *goredis.IntCmd
	var next []*goredis.StringCmd
	var members *goredis.StringSliceCmd
	doing := "count the jobs of " + b.Queue
	if _, err := d.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for _, list := range k.lists {
			ready, next = append(ready, p.LLen(ctx, list)), append(next, p.LIndex(ctx, list, -1))
		}
		for _, list := range k.graves() {
			dead = append(dead, p.LLen(ctx, list))
		}
		delayed, members = p.ZCard(ctx, k.delay), p.SMembers(ctx, k.members)
		paused = p.Exists(ctx, k.paused)
		return nil
	}); err != nil && err != goredis.Nil {
		return core.QueueStats{}, d.failure(doing, err)
	}
	var held []*goredis.IntCmd
	if len(members.Val()) > 0 {
		if _, err := d.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for _, id := range members.Val() {
				if !k.isKin(id) {
					continue
				}
				held = append(held, p.LLen(ctx, k.processing+id))
			}
			return nil
		}); err != nil {
			return core.QueueStats{}, d.failure(doing, err)
		}
	}
	return core.QueueStats{
		Ready: new(total(ready)), Delayed: new(delayed.Val()), Dead: new(total(dead)), InFlight: new(total(held)),
		OldestSeconds: oldest(next), Paused: new(paused.Val() > 0),
	}, nil
}

func total(counts []*goredis.IntCmd) (sum int64) {
	for _, n := range counts {
		sum += n.Val()
	}
	return sum
}

// oldest is the age of the oldest of these jobs; nil when there is none.
func oldest(next []*goredis.StringCmd) *float64 {
	var age *float64
	for _, body := range next {
		if body.Err() != nil {
			continue
		}
		if job, err := core.DecodeAny([]byte(body.Val())); err == nil {
			own := max(time.Since(time.Unix(job.CreatedAt, 0)).Seconds(), 0)
			if age == nil || own > *age {
				age = &own
			}
		}
	}
	return age
}
