package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goconsumer/consumer/internal/fault"
)

// How far ahead of the slots the engine fetches: as many deliveries as they finish
// within prefetchLead, so that slow jobs are not prefetched at all and quick ones
// come in batches. Past modestPrefetch only what they finish within quickLead
// counts: jobs of microseconds need hundreds on hand to keep a claim, a settlement
// and the slots busy at once, and still hold a job no longer than a round trip.
const (
	prefetchLead = 10 * time.Millisecond
	quickLead    = time.Millisecond
)

// modestPrefetch is the most that jobs of any length may have waiting.
func modestPrefetch(slots int) int { return max(2*slots, 64) }

// defaultPrefetch is the most that quick jobs may have waiting.
func defaultPrefetch(slots int) int { return max(2*slots, 256) }

// fetchLoop is the fetcher: the only goroutine that calls Receive.
func (e *Engine) fetchLoop(ctx context.Context) {
	backoff := backoff{first: 50 * time.Millisecond, most: 5 * time.Second}
	for {
		room := e.waitRoom(ctx)
		if room == 0 {
			return
		}
		ds, err := e.receive(ctx, room)
		e.accept(ctx, ds)
		if err == nil {
			backoff.reset()
			e.setReceiving(nil)
			continue
		}
		if ctx.Err() != nil {
			return
		}
		var setup *SetupError
		if errors.As(err, &setup) {
			e.fail(err)
			return
		}
		e.setReceiving(err)
		if !backoff.wait(ctx) {
			return
		}
	}
}

// waitRoom waits until there is room for deliveries, fetching is not paused and
// the gate is open, and counts one Receive as on hand. 0: ctx ended.
func (e *Engine) waitRoom(ctx context.Context) int {
	for {
		closed := e.gate.isClosed()
		e.mu.Lock()
		room := e.roomLocked()
		halted := closed || e.pausedLocked()
		stopping := e.stopping
		e.mu.Unlock()
		if stopping || ctx.Err() != nil {
			return 0
		}
		if halted {
			e.releaseQueued()
		} else if room > 0 && e.gate.enter() {
			e.mu.Lock()
			if !e.stopping {
				e.onHand++
				e.gated++
				e.mu.Unlock()
				return room
			}
			e.mu.Unlock()
			e.gate.add(-1)
			return 0
		}
		if !waitFor(ctx, e.wake) {
			return 0
		}
	}
}

// roomLocked is how many more deliveries the engine asks for. With lanes each
// lane has its own window (see flows), so that a full one holds up no other.
func (e *Engine) roomLocked() int {
	window := e.windowLocked()
	if e.flows.pausing() {
		return window
	}
	// Half a window at a time, so that one half is worked off and settled while
	// the other is fetched; all at once, the three would wait for one another.
	return min(window-e.onHand, max(e.cfg.Binding.Concurrency, window/2))
}

// windowLocked is how many deliveries may be on hand: one a slot, and some ahead.
func (e *Engine) windowLocked() int {
	slots := e.cfg.Binding.Concurrency
	avg := time.Duration(e.avgCost.Load())
	if avg == 0 || e.cfg.Prefetch <= 0 {
		return slots
	}
	within := func(lead time.Duration) int { return int(time.Duration(slots) * lead / avg) }
	ahead := max(min(within(prefetchLead), modestPrefetch(slots)), within(quickLead))
	return slots + min(ahead, e.cfg.Prefetch)
}

// learnCost keeps the average run time that sizes the prefetch.
func (e *Engine) learnCost(cost time.Duration) {
	old := e.avgCost.Load()
	sample := max(int64(cost), 1)
	if old == 0 {
		e.avgCost.Store(sample)
		return
	}
	e.avgCost.Store(max(old+(sample-old)/16, 1)) // a lost update loses one sample
}

// receive makes one Receive call that Pause, the gate and a stop can end, and
// counts what came as on hand in the place of the call.
func (e *Engine) receive(ctx context.Context, room int) ([]*Delivery, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.mu.Lock()
	e.cancelReceive = cancel
	halted := e.pausedLocked() || e.stopping
	e.mu.Unlock()
	if halted || e.gate.isClosed() {
		cancel()
	}
	ds, err := e.source.Receive(ctx, room)
	e.mu.Lock()
	e.cancelReceive = nil
	e.addOnHandLocked(len(ds) - 1)
	e.gated += len(ds) - 1
	e.gate.add(len(ds) - 1)
	e.mu.Unlock()
	return ds, err
}

// accept reads deliveries and sends each on its way. A suspect runs alone: what
// came with it goes back first.
func (e *Engine) accept(ctx context.Context, ds []*Delivery) {
	if len(ds) == 0 {
		return
	}
	ferr := fault.At(fault.EngineReceived)
	e.mu.Lock()
	halted := e.pausedLocked() || e.stopping
	e.mu.Unlock()
	halted = halted || ferr != nil || e.gate.isClosed()

	var suspect *task
	tasks := e.admit(ds)
	ready := tasks[:0]
	for _, t := range tasks {
		switch {
		case halted:
			e.decide(t, released())
		case !e.prepare(t):
			// decided without a handler
		case suspect == nil && e.isSuspect(t):
			suspect = t
		default:
			ready = append(ready, t)
		}
	}
	if suspect == nil {
		e.dispatch(ready)
		return
	}
	for _, t := range ready {
		e.decide(t, released())
	}
	e.runAlone(ctx, suspect)
}

// admit starts the engine's books on deliveries.
func (e *Engine) admit(ds []*Delivery) []*task {
	e.undecided.Add(int64(len(ds)))
	tasks := make([]*task, len(ds))
	for i, d := range ds {
		tasks[i] = &task{d: d, publisher: e.cfg.Publisher, pattern: "other"}
		if d.Lost != nil {
			tasks[i].loss = e.loss.join(d.Lost)
		}
	}
	var full []Lane
	e.mu.Lock()
	for _, t := range tasks {
		e.tasks[t] = struct{}{}
		if e.flows.add(t.d.Lane) {
			full = append(full, t.d.Lane)
		}
	}
	e.mu.Unlock()
	if len(full) > 0 {
		e.flows.pauser.PauseLanes(full)
	}
	return tasks
}

// prepare reads the envelope and finds the handler. false: the job was decided
// without one.
func (e *Engine) prepare(t *task) bool {
	d := t.d
	if len(d.Body) > e.cfg.MaxSize {
		e.decide(t, dead(ReasonTooLarge, fmt.Sprintf("body has %d bytes, max_size is %d", len(d.Body), e.cfg.MaxSize)))
		return false
	}
	job, err := e.decode(d)
	if ferr := fault.At(fault.EngineDecoded); ferr != nil {
		e.decide(t, released())
		return false
	}
	if err != nil {
		e.decide(t, dead(ReasonMalformed, err.Error()))
		return false
	}
	t.job = job
	if d.Charged && d.Found.N == 0 || e.gate.forgiven(e.pardonOf(job, job.Meta.Crashes())) {
		uncharge(t)
		job = t.job
	}
	if e.cfg.Binding.Priority == PriorityNone {
		if p, set := job.Meta.Priority(); set && p != PriorityNormal {
			e.emitTask(EventPriorityIgnored, t, nil)
		}
	}
	t.handler, t.pattern = e.cfg.Handlers.Lookup(job.Type)
	if t.handler == nil {
		t.pattern = "other"
	}
	if decision, decided := e.policy.Before(job, time.Now()); decided {
		if decision.Reason == "expired" {
			e.emitTask(EventExpired, t, nil)
		}
		e.decide(t, decision)
		return false
	}
	if t.handler == nil {
		e.decide(t, e.policy.Unregistered(job))
		return false
	}
	return true
}

// decode reads a body and fills what the envelope leaves to the consumer.
func (e *Engine) decode(d *Delivery) (*Job, error) {
	var job *Job
	var err error
	if e.cfg.DefaultJobType != "" {
		job, _, err = Wrap(d.Body, e.cfg.DefaultJobType)
	} else {
		job, err = e.cfg.Format.Decode(d.Body)
	}
	if err != nil {
		return nil, err
	}
	if job.ID == "" {
		if job.ID = d.ID; job.ID == "" {
			job.ID = DeriveID(e.cfg.Binding.Queue, d.Body)
		}
	}
	if job.MaxAttempts == 0 {
		job.MaxAttempts = e.policy.MaxAttempts(job.Type)
	}
	if d.Attempt > 0 {
		job.Attempt = d.Attempt
	}
	return job, nil
}

// dispatch queues tasks for the workers, in order within an order key.
func (e *Engine) dispatch(tasks []*task) {
	if len(tasks) == 0 {
		return
	}
	if e.cfg.Binding.Ordering == OrderingNone {
		e.queue.push(tasks...)
		return
	}
	for _, t := range tasks {
		if key := e.orderKey(t); key == "" || e.enterLane(t, key) {
			e.queue.push(t)
		}
	}
}

// releaseQueued gives back everything that no worker has started.
func (e *Engine) releaseQueued() { e.releaseUnstarted(nil) }

// releaseUnstarted gives back what has not started, except what keep wants.
func (e *Engine) releaseUnstarted(keep func(*task) bool) {
	waiting := e.drainLanes(keep)
	queued := e.queue.drain(keep)
	for _, t := range append(queued, waiting...) {
		t.state.Store(taskReturned)
		e.decide(t, released())
	}
}
