package redis

import (
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/internal/fault"
)

// promoteChunk bounds one script call, so that others are never kept waiting.
const promoteChunk = 500

// promoter moves due jobs to ready, exactly when they are due: it sleeps until
// the next due time that it knows, is woken by the bell when a nearer one was
// added, and looks every DelayPoll for what other programs added silently.
func (s *source) promoter() {
	rings := make(chan struct{}, 1)
	s.workers.Go(func() { s.listen(rings) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	known := false // a job is due now or soon
	for {
		rung := false
		select {
		case <-s.working.Done():
			return
		case <-timer.C:
		case <-rings:
			known, rung = true, true
		}
		wait, err := s.promoteDue(known)
		if s.working.Err() != nil {
			return
		}
		if s.health.report(partPromote, err) != nil {
			wait = s.options.DelayPoll
		}
		known = wait < s.options.DelayPoll
		timer.Reset(wait)
		if rung { // after the promotion, which has no time to lose
			s.lookPaused()
		}
	}
}

// promoteDue moves everything due and returns how long nothing will be, at most
// DelayPoll. A job that is known to be near is not looked for first: that would
// make it late by a round trip.
func (s *source) promoteDue(known bool) (time.Duration, error) {
	poll := s.options.DelayPoll
	if !known {
		soon := s.clock.millis() + poll.Milliseconds() + 50
		near := strconv.FormatInt(soon*1000/s.keys.unit, 10)
		// A count instead of the head: bodies may be large, and mostly there is none.
		n, err := s.driver.client.ZCount(s.working, s.keys.delay, "-inf", near).Result()
		if err != nil {
			return 0, s.driver.failure("look at "+s.keys.delay, err)
		}
		if n == 0 {
			return poll, nil
		}
	}
	for {
		moved, wait, err := s.promote()
		if err != nil {
			return 0, err
		}
		if moved < promoteChunk {
			return min(wait, poll), nil
		}
	}
}

// promote makes one script call and returns how long until the next is due.
func (s *source) promote() (moved int, wait time.Duration, err error) {
	doing := "promote from " + s.keys.delay
	if err := fault.At(fault.RedisPromoteAsked); err != nil {
		return 0, 0, s.driver.failure(doing, err)
	}
	reply, err := integers(s.working, s.driver.client, s.driver.scripts.promote,
		append([]string{s.keys.delay, s.keys.bell}, s.keys.lists...), promoteChunk, s.keys.unit, s.keys.places)
	if err == nil {
		err = fault.At(fault.RedisPromoted)
	}
	if err != nil {
		return 0, 0, s.driver.failure(doing, err)
	}
	s.clock.set(reply[1])
	if reply[0] > 0 {
		s.notices.Event(&core.Event{Kind: core.EventDelayLate, N: int(reply[0]), Wait: time.Duration(reply[3]) * time.Millisecond})
	}
	if reply[2] < 0 {
		return int(reply[0]), s.options.DelayPoll, nil
	}
	return int(reply[0]), time.Duration(reply[2]) * time.Microsecond, nil
}

// listen waits at the bell. It holds no jobs: a lost ring is made good by the
// poll.
func (s *source) listen(rings chan<- struct{}) {
	for s.working.Err() == nil {
		var rung *goredis.StringSliceCmd
		s.ringer.wait(s.working.Done(), func(client *goredis.Client) {
			rung = goredis.NewStringSliceCmd(s.working, "BLPOP", s.keys.bell, strconv.FormatFloat(s.options.Block.Seconds(), 'f', 3, 64))
			_ = client.Process(s.working, rung)
		})
		switch err := rung.Err(); {
		case err == nil:
			select {
			case rings <- struct{}{}:
			default:
			}
		case err != goredis.Nil:
			select { // the promoter reports what is wrong
			case <-time.After(s.options.DelayPoll):
			case <-s.working.Done():
			}
		}
	}
}
