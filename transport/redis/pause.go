package redis

import (
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/core"
)

// PauseQueue pauses or resumes a queue for every consumer, also for those that
// come later. Each sees it at once by a ring of the bell, or else when it renews
// its lease.
func (d *Driver) PauseQueue(ctx context.Context, b core.Binding, paused bool) error {
	o, err := d.optionsOf(b)
	if err != nil {
		return err
	}
	k := newKeys(b, o)
	var consumers *goredis.IntCmd
	_, err = d.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		if paused {
			p.Set(ctx, k.paused, 1, 0)
		} else {
			p.Del(ctx, k.paused)
		}
		consumers = p.ZCard(ctx, k.consumers)
		return nil
	})
	if err == nil && consumers.Val() > 0 {
		rings := make([]any, consumers.Val())
		for i := range rings {
			rings[i] = 0
		}
		_, err = d.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
			p.LPush(ctx, k.bell, rings...)
			p.PExpire(ctx, k.bell, time.Minute)
			return nil
		})
	}
	doing := "resume "
	if paused {
		doing = "pause "
	}
	return d.failure(doing+b.Queue, err)
}

// lookPaused asks whether the queue is paused. When the server does not answer
// the last word stands; the lease's keeper reports what is wrong.
func (s *source) lookPaused() {
	if n, err := s.driver.client.Exists(s.life, s.keys.paused).Result(); err == nil {
		s.health.pause(n > 0)
	}
}
