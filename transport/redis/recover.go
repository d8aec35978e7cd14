package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/internal/fault"
)

const (
	recoverChunk = 500
	// One look through the keys reads at most a million of them.
	searchCalls = 1000
	searchCount = 1000
	// keepMarks is how long after the last recovery it is known which jobs were
	// found unsettled.
	keepMarks = 7 * 24 * time.Hour
	// moveMargin is added to Block before a silent consumer's name is forgotten.
	moveMargin = time.Second
)

// sweeper looks for consumers that are gone, at the start and then every Sweep,
// not in step with others.
func (s *source) sweeper() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.working.Done():
			return
		case <-timer.C:
		}
		err := s.sweep()
		if err == nil && s.strays.Swap(false) {
			if err = s.search(); err != nil {
				s.strays.Store(true)
			}
		}
		if err != nil && s.working.Err() == nil {
			s.log.Warn("look for orphaned jobs", "queue", s.binding.Queue, "error", err)
		}
		timer.Reset(time.Duration(float64(s.options.Sweep) * (0.9 + 0.2*rand.Float64())))
	}
}

// sweep recovers the jobs of every consumer whose lease is over or missing. The
// script looks again: two sweepers at once do it once.
func (s *source) sweep() error {
	var leases *goredis.ZSliceCmd
	var members *goredis.StringSliceCmd
	_, err := s.driver.client.Pipelined(s.working, func(p goredis.Pipeliner) error {
		leases = p.ZRangeWithScores(s.working, s.keys.consumers, 0, -1)
		members = p.SMembers(s.working, s.keys.members)
		return nil
	})
	if err != nil {
		return s.driver.failure("look for consumers of "+s.binding.Queue, err)
	}
	alive, now := map[string]bool{}, s.clock.millis()
	suspects := map[string]bool{}
	for _, z := range leases.Val() {
		id := z.Member.(string)
		alive[id] = int64(z.Score) > now
		suspects[id] = !alive[id]
	}
	for _, id := range members.Val() {
		suspects[id] = !alive[id]
	}
	for id, orphan := range suspects {
		if !orphan || !s.keys.isKin(id) {
			continue
		}
		if err := s.recover(id); err != nil {
			return err
		}
	}
	return nil
}

// search looks through the server's keys, at most searchCalls × searchCount of
// them, for processing lists of consumers that no sweep can know: somebody deleted
// the keys that name them, or they were lost at a failover.
func (s *source) search() error {
	pattern := globEscaper.Replace(s.keys.processing) + "*"
	var cursor uint64
	for range searchCalls {
		lists, next, err := s.driver.client.Scan(s.working, cursor, pattern, searchCount).Result()
		if err != nil {
			return s.driver.failure("look for processing lists of "+s.binding.Queue, err)
		}
		for _, list := range lists {
			id := strings.TrimPrefix(list, s.keys.processing)
			if !s.keys.isKin(id) {
				continue
			}
			if err := s.recover(id); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
	return nil
}

// globEscaper makes a key's name match only itself.
var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

// recover gives one dead consumer's jobs back. Never our own: a program that slept
// until its lease was over renews it, unless somebody else was faster.
func (s *source) recover(id string) error {
	s.mu.Lock()
	own := s.current
	s.mu.Unlock()
	if own.id == id && !own.gone() {
		return nil
	}
	total := 0
	defer func() {
		if total > 0 {
			s.log.Warn("jobs of a consumer that is gone were recovered", "queue", s.binding.Queue, "consumer", id, "jobs", total)
			s.notices.Event(&core.Event{Kind: core.EventRedelivered, Cause: "orphan", Reason: id, N: total})
		}
	}()
	for {
		if err := fault.At(fault.RedisRecoverAsked); err != nil {
			return s.driver.failure("recover "+id, err)
		}
		moved, left, err := s.giveBack(s.working, id, "0")
		if err == nil {
			err = fault.At(fault.RedisRecovered)
		}
		if err != nil {
			return s.driver.failure("recover "+id, err)
		}
		total += moved
		if left <= 0 {
			return nil
		}
	}
}

// release gives our own jobs back and removes our name, at a stop.
func (s *source) release(ctx context.Context) error {
	s.mu.Lock()
	c := s.current
	s.mu.Unlock()
	if c == nil || c.gone() {
		return nil
	}
	own := "1"
	if !c.strayed.IsZero() && time.Since(c.strayed) < s.options.Block+moveMargin {
		own = "2" // keep the name: a move may still follow
	}
	for {
		err := fault.At(fault.RedisReleaseAsked)
		left := 0
		if err == nil {
			_, left, err = s.giveBack(ctx, c.id, own)
		}
		if err == nil {
			err = fault.At(fault.RedisReleased)
		}
		if err != nil {
			return fmt.Errorf("%w; others recover its jobs when its lease of %s is over", s.driver.failure("release "+c.processing, err), s.options.Lease)
		}
		if left <= 0 {
			c.lose()
			return nil
		}
	}
}

func (s *source) giveBack(ctx context.Context, id, own string) (moved, left int, err error) {
	keys := append([]string{
		s.keys.consumers, s.keys.members, s.keys.gone, s.keys.found, s.keys.processing + id, s.keys.sequence + id,
	}, s.keys.lists...)
	reply, err := integers(ctx, s.driver.client, s.driver.scripts.recover, keys,
		id, recoverChunk, (s.options.Block + moveMargin).Milliseconds(), strconv.FormatInt(keepMarks.Milliseconds(), 10), own, s.keys.places)
	if err != nil {
		return 0, 0, err
	}
	return int(reply[0]), int(reply[1]), nil
}
