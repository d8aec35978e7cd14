package redis

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/internal/fault"
)

// maxClaim bounds one claim: Lua's unpack has a limit, and so has the time for
// which a script may keep the server.
const maxClaim = 500

// Receive claims what is there, up to max; when nothing is, it waits at the
// server for one job. An empty source costs four commands each Block.
func (s *source) Receive(ctx context.Context, max int) ([]*core.Delivery, error) {
	for {
		if ctx.Err() != nil || s.stopped() {
			return nil, nil
		}
		c, err := s.identity(ctx)
		if ctx.Err() != nil {
			return nil, nil
		}
		if err != nil {
			return nil, s.health.report(partFetch, err)
		}
		jobs, err := s.fetch(ctx, c, max)
		if s.health.report(partFetch, err) != nil || len(jobs) > 0 {
			return jobs, err
		}
	}
}

// fetch makes one round: compare when there is doubt, claim, wait.
func (s *source) fetch(ctx context.Context, c *consumer, max int) ([]*core.Delivery, error) {
	if jobs, err := s.compareWhenDue(ctx, c); err != nil || len(jobs) > 0 {
		return jobs, err
	}
	if jobs, err := s.claim(c, max); err != nil || len(jobs) > 0 {
		return jobs, err
	}
	for !c.gone() && ctx.Err() == nil && !s.stopped() {
		if jobs, err := s.await(ctx, c); err != nil || len(jobs) > 0 {
			return jobs, err
		}
		_ = s.health.report(partFetch, nil)
		if s.elsewhere {
			return nil, nil // Receive claims
		}
		if jobs, err := s.compareWhenDue(ctx, c); err != nil || len(jobs) > 0 {
			return jobs, err
		}
	}
	return nil, nil
}

// compareWhenDue compares after a lost reply, and once a sweep.
func (s *source) compareWhenDue(ctx context.Context, c *consumer) ([]*core.Delivery, error) {
	if !c.doubt {
		if time.Since(c.checked) < s.options.Sweep {
			return nil, nil
		}
		if surplus, err := s.surplus(ctx, c); err != nil || !surplus {
			return nil, err
		}
	}
	return s.compare(ctx, c)
}

// surplus says whether the processing list is longer than the books. It reads no
// bodies, which may be large; jobs that are being settled may hide a stranded one
// from it, until a later look.
func (s *source) surplus(ctx context.Context, c *consumer) (bool, error) {
	held := c.holds() // first: see compare
	listed, err := s.driver.client.LLen(ctx, c.processing).Result()
	if err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, s.driver.failure("look at "+c.processing, err)
	}
	c.checked, c.doubt = time.Now(), listed > int64(held)
	return c.doubt, nil
}

// claim moves up to max jobs from the ready lists to the processing list.
func (s *source) claim(c *consumer, max int) ([]*core.Delivery, error) {
	doing := "claim from " + s.keys.ready
	if err := fault.At(fault.RedisClaimAsked); err != nil {
		return nil, s.driver.failure(doing, err)
	}
	// Not under Receive's ctx: a claim that has begun is read to its end.
	reply, err := s.driver.scripts.claim.Run(s.life, s.driver.client,
		append([]string{s.keys.consumers, c.processing, s.keys.found}, s.keys.lists...), c.id, min(max, maxClaim)).Result()
	if err == nil {
		err = fault.At(fault.RedisClaimed)
	}
	if err != nil {
		c.doubt = c.doubt || !isReply(err)
		return nil, s.driver.failure(doing, err)
	}
	lists, ok := reply.([]any)
	if !ok {
		s.lose(c)
		return nil, nil
	}
	if len(lists) == 0 {
		return nil, nil
	}
	bodies, marks, counts := lists[0].([]any), lists[1].([]any), lists[2].([]any)
	jobs := make([]*core.Delivery, len(bodies))
	place, left := 0, int64(0) // the list of the next body, and how many more came from it
	for i, body := range bodies {
		found := 0
		if i < len(marks) {
			n, _ := marks[i].(int64)
			found = int(n)
		}
		for left == 0 {
			left, _ = counts[place].(int64)
			place++
		}
		left--
		jobs[i] = c.take(body, found, place)
	}
	return jobs, nil
}

// await waits at the server for one job of the plain list, up to Block, and ends
// early when ctx ends, the source stops, the identity is lost or another list may
// have a job: then elsewhere is set (see watch).
func (s *source) await(ctx context.Context, c *consumer) ([]*core.Delivery, error) {
	doing := "wait for " + s.keys.ready
	if err := fault.At(fault.RedisMoveAsked); err != nil {
		return nil, s.driver.failure(doing, err)
	}
	early, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.fetching, cancel)()
	var rung atomic.Bool
	go func() {
		select {
		case <-c.lost:
		case <-s.watch.changed():
			rung.Store(true)
		case <-early.Done():
		}
		cancel()
	}()

	var moved *goredis.Cmd
	var marked *goredis.IntCmd
	var lease *goredis.FloatCmd
	var lookErr error
	read := s.mover.wait(early.Done(), func(client *goredis.Client) {
		block := s.options.Block
		if s.watch != nil {
			if s.elsewhere, lookErr = s.watch.look(s.life, client); s.elsewhere || lookErr != nil {
				return
			}
			block = s.watch.bound(block, s.options.DelayPoll)
		}
		_, _ = client.Pipelined(s.life, func(p goredis.Pipeliner) error {
			// The name goes first, on the same connection: whenever the move
			// happens, sweepers know whose list it went to, even if this program
			// slept until it counted as dead and was forgotten.
			p.SAdd(s.life, s.keys.members, c.id)
			moved = p.Do(s.life, "BLMOVE", s.keys.ready, c.processing, "RIGHT", "LEFT",
				strconv.FormatFloat(block.Seconds(), 'f', 3, 64))
			marked = p.Exists(s.life, s.keys.found)
			lease = p.ZScore(s.life, s.keys.consumers, c.id) // a move cannot check it beforehand
			return nil
		})
	})
	if moved == nil {
		if lookErr != nil && read {
			return nil, s.driver.failure(doing, lookErr)
		}
		return nil, nil
	}
	s.elsewhere = rung.Load()
	body, err := moved.Result()
	if err == nil {
		err = fault.At(fault.RedisMoved)
	}
	switch {
	case err == goredis.Nil || goredis.HasErrorPrefix(err, "UNBLOCKED"):
		return nil, nil
	case err != nil:
		c.doubt = c.doubt || !isReply(err)
		if !isReply(err) {
			c.strayed = time.Now()
		}
		if !read {
			return nil, nil // ctx ended and the server was silent: not a new fault
		}
		return nil, s.driver.failure(doing, err)
	case lease.Err() == goredis.Nil:
		s.lose(c)
	}
	if c.gone() {
		return nil, nil // it lies in the old name's list, where the sweep finds it
	}
	found := 0
	if marked.Err() != nil || marked.Val() > 0 {
		marks, err := s.marks([]any{body})
		if err != nil {
			c.doubt = true
			return nil, err
		}
		found = marks[0]
	}
	return []*core.Delivery{c.take(body, found, s.keys.place(core.PriorityNormal))}, nil
}

// compare looks for jobs in the processing list that no delivery holds: those
// whose claim was carried out but whose reply was lost. They are handed out.
func (s *source) compare(ctx context.Context, c *consumer) ([]*core.Delivery, error) {
	c.comparing.Lock()
	defer c.comparing.Unlock()
	// First the books, then the list: what is settled in between is on the books
	// and not in the list, never the other way round.
	c.mu.Lock()
	held := make(map[string]int, len(c.held))
	for body, n := range c.held {
		held[body] = n
	}
	c.mu.Unlock()
	list, err := s.driver.client.LRange(ctx, c.processing, 0, -1).Result()
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil
		}
		return nil, s.driver.failure("compare "+c.processing, err)
	}
	var stranded []any
	for _, body := range slices.Backward(list) {
		if held[body]--; held[body] < 0 {
			stranded = append(stranded, body)
		}
	}
	marks, err := s.marks(stranded)
	if err != nil {
		return nil, err
	}
	c.doubt, c.checked = false, time.Now()
	if len(stranded) == 0 {
		return nil, nil
	}
	s.log.Info("jobs found in the own processing list whose claim had no reply", "queue", s.binding.Queue, "jobs", len(stranded))
	jobs := make([]*core.Delivery, len(stranded))
	for i, body := range stranded {
		jobs[i] = c.take(body, marks[i], 0)
	}
	return jobs, nil
}

// marks looks up how often bodies were found unsettled.
func (s *source) marks(bodies []any) ([]int, error) {
	if len(bodies) == 0 {
		return nil, nil
	}
	fields := make([]string, len(bodies))
	for i, body := range bodies {
		sum := sha1.Sum([]byte(body.(string)))
		fields[i] = hex.EncodeToString(sum[:])
	}
	values, err := s.driver.client.HMGet(s.life, s.keys.found, fields...).Result()
	if err != nil {
		return nil, s.driver.failure("look up "+s.keys.found, err)
	}
	marks := make([]int, len(bodies))
	for i, v := range values {
		if text, ok := v.(string); ok {
			if n, err := strconv.Atoi(text); err == nil {
				marks[i] = n
			}
		}
	}
	return marks, nil
}

// identity returns the current consumer, or registers a new one: published
// before its first pop, so that nobody takes it for dead.
func (s *source) identity(ctx context.Context) (*consumer, error) {
	s.mu.Lock()
	c := s.current
	s.mu.Unlock()
	if c != nil && !c.gone() {
		return c, nil
	}
	c = newConsumer(s.binding, s.keys)
	now, err := s.driver.scripts.register.Run(ctx, s.driver.client,
		[]string{s.keys.consumers, s.keys.members, c.processing, c.sequence}, c.id, s.options.Lease.Milliseconds()).Int64()
	if err != nil {
		return nil, s.driver.failure(fmt.Sprintf("register as a consumer of %s", s.binding.Queue), err)
	}
	s.clock.set(now)
	c.checked = time.Now()
	s.mu.Lock()
	s.current = c
	s.mu.Unlock()
	return c, nil
}
