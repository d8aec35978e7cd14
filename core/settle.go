package core

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goconsumer/consumer/internal/fault"
)

// settler sends decisions to the source in batches without a timer: it flushes
// when no flush is in flight, and what gathers meanwhile is the next batch, so a
// lone job settles at once and a busy engine settles many in one call.
type settler struct {
	e    *Engine
	work chan struct{} // cap 1: pending is not empty
	sink chan struct{} // cap 1: the same for the dead-letter sink

	mu      sync.Mutex
	pending []*task
	dead    []*task // dead letters on their way to a DeadSink
}

// maxSettleBatch bounds one Settle call.
const maxSettleBatch = 512

// Backoff of a settlement that the broker refused.
const (
	settleBackoffFirst = 50 * time.Millisecond
	settleBackoffMost  = 5 * time.Second
)

func (s *settler) init(e *Engine) {
	s.e = e
	s.work = make(chan struct{}, 1)
	s.sink = make(chan struct{}, 1)
}

// decide ends a job's run: the decision goes to the settler, and the next job of
// its order key may start, unless an abandoned handler still runs.
func (e *Engine) decide(t *task, d Decision) {
	if err := fault.At(fault.EngineDecided); err != nil {
		d = released()
	}
	t.decision = d
	abandoned := t.state.Load() == taskAbandoned
	if t.isLost() {
		e.dropLost(t)
	} else {
		e.settle.add(t)
		e.decided()
	}
	if t.lane != nil && !abandoned {
		e.reopen(t.lane)
	}
}

// dropLost forgets a delivery that is no longer ours.
func (e *Engine) dropLost(t *task) {
	e.emitTask(EventStale, t, nil)
	e.leave([]*task{t})
	e.decided()
}

// decided counts one delivery that waits for no handler any more.
func (e *Engine) decided() {
	if e.undecided.Add(-1) == 0 {
		signal(e.idle)
	}
}

// add queues one decision.
func (s *settler) add(t *task) {
	s.mu.Lock()
	if t.decision.Verdict == VerdictDead && s.e.cfg.DeadSink != nil && !t.deadStored {
		s.dead = append(s.dead, t)
		s.mu.Unlock()
		signal(s.sink)
		return
	}
	s.pending = append(s.pending, t)
	s.mu.Unlock()
	signal(s.work)
}

// signal wakes the receiver of a channel of capacity 1.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default: // it is awake already
	}
}

// loop is the settler's goroutine. It ends when draining is over.
func (s *settler) loop() {
	for {
		select {
		case <-s.work:
		case <-s.e.quit:
			return
		}
		for {
			batch := s.take(&s.pending)
			if len(batch) == 0 {
				break
			}
			if !s.flush(batch) {
				return
			}
		}
	}
}

// take cuts the next batch off a queue.
func (s *settler) take(queue *[]*task) []*task {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(*queue), maxSettleBatch)
	batch := (*queue)[:n:n]
	if *queue = (*queue)[n:]; len(*queue) == 0 {
		*queue = nil
	}
	return batch
}

// flush settles one batch and waits for the broker's word on every item. false:
// draining was over first.
func (s *settler) flush(batch []*task) bool {
	items := make([]Settlement, len(batch))
	for i, t := range batch {
		items[i] = s.settlement(t)
	}
	errs := make([]error, len(batch))
	if err := fault.At(fault.EngineSettling); err != nil {
		for i := range errs {
			errs[i] = err
		}
		s.finish(batch, errs)
		return true
	}
	var open atomic.Int64
	open.Store(int64(len(batch)))
	all := make(chan struct{})
	s.e.source.Settle(items, func(i int, err error) {
		if err == nil {
			err = fault.At(fault.EngineSettled)
		}
		errs[i] = err
		if open.Add(-1) == 0 {
			close(all)
		}
	})
	select {
	case <-all:
		s.finish(batch, errs)
		return true
	case <-s.e.quit:
		return false
	}
}

// settlement puts a decision into the driver's terms.
func (s *settler) settlement(t *task) Settlement {
	d := t.decision
	out := Settlement{D: t.d, Verdict: d.Verdict, Delay: t.delayLeft()}
	switch d.Verdict {
	case VerdictRetry, VerdictDefer:
		// A broker that retries in place gets a body only where it must change.
		if !s.e.caps.InPlace || d.Verdict == VerdictDefer || t.refund != nil {
			out.Next = d.Next.Append(make([]byte, 0, len(t.d.Body)+64))
		}
	case VerdictRelease:
		if !t.d.Charged { // else it is still charged for the run that is to come
			out.Next = t.refund
		}
	case VerdictDead:
		if t.deadStored {
			out.Verdict = VerdictDone
		} else {
			out.Dead = s.e.deadRecord(t)
		}
	}
	return out
}

// deadRecord is what is kept of a job that will not be tried again.
func (e *Engine) deadRecord(t *task) *DeadRecord {
	r := &DeadRecord{
		Job: t.job, Error: t.decision.Error, Reason: t.decision.Reason, At: time.Now(),
		Queue: e.cfg.Binding.Queue, Process: e.cfg.Binding.Process, Transport: e.cfg.Transport, Source: t.d.Ref,
	}
	if t.job == nil {
		r.Raw = t.d.Body
	}
	return r
}

// finish books the broker's answers: settled and stale jobs leave, the others are
// settled again later.
func (s *settler) finish(batch []*task, errs []error) {
	gone := make([]*task, 0, len(batch))
	var failed error
	for i, t := range batch {
		switch err := errs[i]; {
		case err == nil:
			s.e.emitFinished(t)
			gone = append(gone, t)
		case errors.Is(err, ErrStale):
			s.e.emitTask(EventStale, t, nil)
			gone = append(gone, t)
		default:
			failed = err
			s.again(t, err)
		}
	}
	s.e.leave(gone)
	s.e.setSettling(failed, len(gone) > 0)
}

// again settles a task once more after a backoff. The handler is not run again.
func (s *settler) again(t *task, err error) {
	t.tries++
	s.e.standBy(t)
	s.e.emitTask(EventSettleError, t, func(ev *Event) { ev.Err, ev.N = err, t.tries })
	delay := backoffAt(settleBackoffFirst, settleBackoffMost, t.tries)
	time.AfterFunc(delay, func() {
		if t.isLost() {
			s.e.emitTask(EventStale, t, nil)
			s.e.leave([]*task{t})
			return
		}
		s.add(t)
	})
}

// sinkLoop stores dead letters in a place that is not the transport's own, before
// their originals are settled.
func (s *settler) sinkLoop() {
	for {
		select {
		case <-s.sink:
		case <-s.e.quit:
			return
		}
		for batch := s.take(&s.dead); len(batch) > 0; batch = s.take(&s.dead) {
			s.storeDead(batch)
		}
	}
}

func (s *settler) storeDead(batch []*task) {
	records := make([]*DeadRecord, len(batch))
	for i, t := range batch {
		records[i] = s.e.deadRecord(t)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(s.e.hard, cancel)
	errs := s.e.cfg.DeadSink.Store(ctx, records)
	stop()
	cancel()
	var failed error
	for i, t := range batch {
		if errs != nil && errs[i] != nil {
			failed = errs[i]
			s.again(t, errs[i])
			continue
		}
		if err := fault.At(fault.EngineDeadStored); err != nil {
			failed = err
			s.again(t, err)
			continue
		}
		t.deadStored = true
		s.add(t)
	}
	s.e.setSettling(failed, failed == nil)
}

// leave ends the books on tasks: they are settled, stale or lost.
func (e *Engine) leave(tasks []*task) {
	if len(tasks) == 0 {
		return
	}
	var resume []Lane
	gated := 0
	e.mu.Lock()
	for _, t := range tasks {
		delete(e.tasks, t)
		if !t.standsBy {
			gated++
		}
		if e.flows.remove(t.d.Lane) {
			resume = append(resume, t.d.Lane)
		}
	}
	e.addOnHandLocked(-len(tasks))
	e.leaveGateLocked(gated)
	e.mu.Unlock()
	for _, t := range tasks {
		e.loss.leave(t.loss)
		t.endAlone()
	}
	e.finished.Add(int64(len(tasks)))
	if len(resume) > 0 {
		e.flows.pauser.ResumeLanes(resume)
	}
	e.wakeFetcher()
}

// standBy takes a task whose settlement failed out of the gate: its handler has
// ended, so it can bring nobody down any more, and how long its broker or its
// dead-letter place stays away must not decide when a suspect of any engine runs
// or when the others may go on after it.
func (e *Engine) standBy(t *task) {
	e.mu.Lock()
	if !t.standsBy {
		t.standsBy = true
		e.leaveGateLocked(1)
	}
	e.mu.Unlock()
	t.endAlone()
}

// leaveGateLocked takes n things out of the gate; e.mu is held. After the engine's
// end none of its are in it, and what leaves late changes nothing.
func (e *Engine) leaveGateLocked(n int) {
	n = min(n, e.gated)
	e.gated -= n
	e.gate.add(-n)
}

// addOnHandLocked changes the number of deliveries on hand; e.mu is held.
func (e *Engine) addOnHandLocked(n int) {
	e.onHand += n
	if e.onHand == 0 {
		for _, ch := range e.empty {
			close(ch)
		}
		e.empty = nil
	}
}
