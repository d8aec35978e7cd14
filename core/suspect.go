package core

import (
	"context"
	"errors"
	"time"

	"github.com/goconsumer/consumer/internal/fault"
)

// suspectAfter is how often a job must have been found unsettled to be a suspect:
// the first time it may only have stood beside the one that killed the worker.
const suspectAfter = 2

// isSuspect says whether a job must run alone: it was found unsettled twice, or it
// was charged before.
func (e *Engine) isSuspect(t *task) bool {
	return t.refund != nil || t.d.Found.N >= suspectAfter || t.job.Meta.Crashes() > 0
}

// runAlone runs a suspect while nothing else is on hand in this OS process. The
// charge is stored before it starts, so that a crash leaves the charged envelope
// behind; any other end writes the uncharged one (the refund).
func (e *Engine) runAlone(ctx context.Context, t *task) {
	e.emitTask(EventSuspect, t, func(ev *Event) { ev.N = t.d.Found.N })
	alone := e.gate.close()
	if alone == nil { // another engine's suspect comes first
		e.decide(t, released())
		return
	}
	defer e.gate.open()
	e.releaseQueued()
	if !waitFor(ctx, alone) || t.isLost() {
		e.decide(t, released())
		return
	}
	if !e.charge(ctx, t) {
		return
	}
	t.ran = make(chan struct{})
	e.queue.push(t)
	select {
	case <-t.ran:
	case <-e.quit:
	}
	if t.refund != nil && t.isLost() {
		e.gate.forgive(e.pardonOf(t.job, t.job.Meta.Crashes()+1))
	}
}

func (e *Engine) pardonOf(job *Job, crashes int) pardon {
	return pardon{queue: e.cfg.Binding.Queue, id: job.ID, crashes: crashes}
}

// charge stores the charged envelope in the delivery's place. false: the task is
// decided or gone.
func (e *Engine) charge(ctx context.Context, t *task) bool {
	isolator, ok := e.source.(Isolator)
	if !ok || t.refund != nil {
		return true
	}
	charged := *t.job
	charged.Meta.setCount("crashes", t.job.Meta.Crashes()+1)
	err := fault.At(fault.EngineIsolating)
	var d *Delivery
	if err == nil {
		d, err = isolator.Isolate(ctx, t.d, charged.Append(nil))
	}
	switch {
	case errors.Is(err, ErrStale):
		// The charge may have been stored, and nothing has run.
		e.gate.forgive(e.pardonOf(t.job, charged.Meta.Crashes()))
		e.dropLost(t)
	case err != nil:
		e.setReceiving(err)
		e.decide(t, released())
		// Released at once, it would come back at once.
		pause := backoff{first: time.Second, most: time.Second}
		pause.wait(ctx)
	case d == nil: // the charged job comes back on its own
		e.leave([]*task{t})
		e.decided()
	default:
		t.refund = t.d.Body
		t.d = d
		return true
	}
	return false
}

// uncharge takes the charge for this very run off a job that came with it.
func uncharge(t *task) {
	plain := *t.job
	if crashes := plain.Meta.Crashes() - 1; crashes > 0 {
		plain.Meta.setCount("crashes", crashes)
	} else {
		plain.Meta.Delete("crashes")
	}
	t.job = &plain
	t.refund = plain.Append(nil)
}
