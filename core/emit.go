package core

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// events are reused: listeners may not keep them.
var events = sync.Pool{New: func() any { return new(Event) }}

// emit fills in where an event happened and tells every listener.
func (e *Engine) emit(ev *Event) {
	if ev.Time.IsZero() {
		ev.Time = time.Now()
	}
	ev.Process, ev.Transport, ev.Queue = e.cfg.Binding.Process, e.cfg.Transport, e.cfg.Binding.Queue
	for _, l := range e.cfg.Listeners {
		e.tell(l, ev)
	}
}

// tell calls one listener; its panic must not touch the job.
func (e *Engine) tell(l Listener, ev *Event) {
	defer func() {
		if v := recover(); v != nil {
			e.cfg.Logger.Error("listener.panic", "process", ev.Process, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	l(ev)
}

// emitTask emits a fact about a task; fill adds to it.
func (e *Engine) emitTask(kind EventKind, t *task, fill func(*Event)) {
	if len(e.cfg.Listeners) == 0 {
		return
	}
	ev := events.Get().(*Event)
	*ev = Event{Kind: kind, Job: t.job, Type: t.pattern}
	if fill != nil {
		fill(ev)
	}
	e.emit(ev)
	events.Put(ev)
}

// emitStarted tells that a handler is about to run.
func (e *Engine) emitStarted(t *task) {
	if len(e.cfg.Listeners) == 0 {
		return
	}
	ev := events.Get().(*Event)
	*ev = Event{Kind: EventStarted, Job: t.job, Type: t.pattern, Time: t.started}
	if t.job.Attempt == 1 && t.job.CreatedAt > 0 {
		ev.Wait = max(t.started.Sub(time.Unix(t.job.CreatedAt, 0)), 0)
	}
	e.emit(ev)
	events.Put(ev)
}

// emitFinished tells that a decision is durable.
func (e *Engine) emitFinished(t *task) {
	if len(e.cfg.Listeners) == 0 {
		return
	}
	d := &t.decision
	ev := events.Get().(*Event)
	*ev = Event{
		Kind: EventFinished, Job: t.job, Type: t.pattern, Outcome: d.Outcome, Reason: d.Reason,
		ErrText: d.Error, Cost: t.cost, Delay: d.Delay,
	}
	if d.Next != nil {
		ev.Next = d.Next.Attempt
	}
	switch {
	case t.job != nil:
	case d.Verdict == VerdictDead:
		ev.IDs = []string{DeriveID(e.cfg.Binding.Queue, t.d.Body)}
	case d.Verdict == VerdictRelease: // fetched and not looked at yet
		if job, err := e.decode(t.d); err == nil {
			ev.Job = job
		}
	}
	e.emit(ev)
	events.Put(ev)
}
