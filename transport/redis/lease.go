package redis

import (
	"time"

	"github.com/goconsumer/consumer/internal/fault"
)

// keepLease renews the lease every third of it. While the server cannot be
// reached it tries faster: being late is not being lost, as long as nobody has
// recovered our jobs, and only the server can tell.
func (s *source) keepLease() {
	pause := s.options.Lease / 3
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-s.life.Done():
			return
		case <-timer.C:
		}
		if s.renew() == nil {
			timer.Reset(pause)
		} else {
			timer.Reset(min(pause/4, 500*time.Millisecond))
		}
	}
}

func (s *source) renew() error {
	s.mu.Lock()
	c := s.current
	s.mu.Unlock()
	if c == nil || c.gone() {
		return nil
	}
	err := fault.At(fault.RedisRenewAsked)
	var now int64
	if err == nil {
		now, err = s.driver.scripts.renew.Run(s.life, s.driver.client,
			[]string{s.keys.consumers}, c.id, s.options.Lease.Milliseconds()).Int64()
	}
	if s.life.Err() != nil {
		return nil
	}
	if s.health.report(partLease, s.driver.failure("renew the lease of "+c.id, err)) != nil {
		return err
	}
	if now == 0 {
		s.lose(c)
		return nil
	}
	s.clock.set(now)
	s.lookPaused()
	return nil
}
