package core

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goconsumer/consumer/internal/fault"
)

// worker is one slot: a goroutine that runs handlers one after the other, and an
// alarm that enforces their time limits. A worker whose handler was given up is
// replaced and ends when that handler returns.
type worker struct {
	e       *Engine
	current atomic.Pointer[task]
	timing  sync.Mutex // guards alarm, and limit, deadline and timedOut of the current task
	alarm   alarm
	goid    int64 // for the stack of a stuck handler
	left    sync.Once
}

// startWorker fills a slot.
func (e *Engine) startWorker() {
	w := &worker{e: e}
	e.mu.Lock()
	e.slots[w] = struct{}{}
	e.mu.Unlock()
	e.workers.Add(1)
	go func() {
		defer w.leave() // also after runtime.Goexit
		w.loop()
	}()
}

// leave gives the slot up: the worker ended, or its handler was given up.
func (w *worker) leave() {
	w.left.Do(func() {
		w.e.mu.Lock()
		delete(w.e.slots, w)
		w.e.mu.Unlock()
		w.e.workers.Done()
	})
}

// initAlarm makes the alarm, not set.
func (w *worker) initAlarm() {
	w.alarm.timer = time.AfterFunc(time.Hour, w.onAlarm)
	w.alarm.timer.Stop()
}

func (w *worker) loop() {
	w.goid = goroutineID()
	w.initAlarm()
	defer w.alarm.timer.Stop()
	for {
		t := w.e.queue.pop()
		if t == nil || !w.run(t) {
			return
		}
	}
}

// run executes one task. false ends the worker: its slot was given to another.
func (w *worker) run(t *task) (alive bool) {
	if t.isLost() || fault.At(fault.EngineDispatched) != nil {
		t.state.Store(taskReturned)
		w.e.decide(t, released())
		return true
	}
	w.begin(t)
	exited := true
	defer func() {
		if exited { // runtime.Goexit: the deferred calls run, the goroutine ends
			alive = false
			if w.end(t, errGoexit) {
				w.e.startWorker()
			}
		}
	}()
	err := w.call(t)
	exited = false
	return w.end(t, err)
}

var errGoexit = errors.New("handler ended its goroutine (runtime.Goexit)")

// begin arms the time limit and makes the handler's context.
func (w *worker) begin(t *task) {
	e := w.e
	e.running.Add(1)
	parent := e.hard
	if t.loss != nil {
		parent = t.loss.ctx
	}
	t.given = *t.job
	t.ctx.task = t
	t.ctx.ctx = parent
	t.started = time.Now()
	t.worker = w
	w.timing.Lock()
	w.current.Store(t)
	t.limit = e.timeout
	if own := t.job.Meta.Timeout(); own > 0 {
		t.limit = own
	}
	if t.limit > 0 {
		t.expireLocked(t.started.Add(t.limit))
	}
	w.timing.Unlock()
	e.emitStarted(t)
}

// call runs the handler and turns a panic into an error.
func (w *worker) call(t *task) (err error) {
	defer func() {
		// recover returns nil both for an ordinary return and for Goexit;
		// panic(nil) arrives as *runtime.PanicNilError.
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			if e, ok := v.(error); ok {
				err = fmt.Errorf("panic: %w", e)
			}
			w.e.emitTask(EventPanicked, t, func(ev *Event) { ev.Err, ev.Stack = err, debug.Stack() })
			err = Retry(opaque{err}) // a Result inside a panic value is not a decision
		}
	}()
	return t.handler(&t.ctx, &t.given)
}

// opaque hides what an error wraps.
type opaque struct{ error }

// end takes the handler's word, unless it was given up before.
func (w *worker) end(t *task, err error) (alive bool) {
	e := w.e
	w.timing.Lock()
	w.current.Store(nil)
	limit := t.limit
	w.timing.Unlock()
	if !t.state.CompareAndSwap(taskRunning, taskReturned) {
		e.stuckReturned(t)
		return false
	}
	t.cost = time.Since(t.started)
	e.running.Add(-1)
	e.learnCost(t.cost)
	cause := t.ctx.cause()
	t.ctx.cancel(nil)
	if ferr := fault.At(fault.EngineHandled); ferr != nil {
		err = ferr
	}
	e.decide(t, e.judge(t.job, err, cause, limit))
	return true
}

// judge makes a decision of what a handler returned, given why it was cancelled
// (nil if it was not). A handler that names a result is believed; a plain error
// after a cancellation only says that it was cancelled.
func (e *Engine) judge(job *Job, err, cause error, limit time.Duration) Decision {
	r := ResultOf(err)
	if cause != nil && (r.Status == StatusRetry) {
		switch {
		case errors.Is(cause, ErrStopping):
			return released()
		case errors.Is(cause, ErrTimedOut):
			r = Result{Status: StatusRetry, Err: timeoutError(limit)}
		}
	}
	return e.policy.After(job, r)
}

func timeoutError(limit time.Duration) error { return fmt.Errorf("timed out after %s", limit) }

// onAlarm fires at the deadline of the current task and once more when the grace
// after it is over. It may fire before, set for a task that is gone or was extended.
func (w *worker) onAlarm() {
	w.timing.Lock()
	defer w.timing.Unlock()
	w.alarm.fired()
	t := w.current.Load()
	if t == nil || t.limit == 0 || t.state.Load() != taskRunning {
		return
	}
	if deadline := time.Unix(0, t.deadline.Load()); time.Now().Before(deadline) {
		w.alarm.set(deadline)
		return
	}
	if !t.timedOut {
		t.timedOut = true
		t.ctx.cancel(ErrTimedOut)
		t.expireLocked(time.Now().Add(w.e.grace))
		w.e.emitTask(EventTimedOut, t, func(ev *Event) { ev.Err = timeoutError(t.limit) })
		return
	}
	w.e.abandon(w, t, w.e.policy.After(t.job, Result{Status: StatusRetry, Err: timeoutError(t.limit)}))
}

// abandon gives a running handler up: its job is decided, its slot refilled, its
// late result will be dropped. It does nothing if the handler returned meanwhile.
func (e *Engine) abandon(w *worker, t *task, d Decision) {
	if !t.state.CompareAndSwap(taskRunning, taskAbandoned) {
		return
	}
	t.cost = time.Since(t.started)
	e.running.Add(-1)
	stuck := e.stuck.Add(1)
	e.emitTask(EventStuck, t, func(ev *Event) { ev.Stack = stackOf(w.goid); ev.N = int(stuck) })
	e.decide(t, d)
	if int(stuck) >= e.maxStuck {
		e.fail(ErrTooManyStuck)
	} else {
		e.startWorker()
	}
	w.leave()
}

// stuckReturned accounts for a handler that came back after it was given up.
func (e *Engine) stuckReturned(t *task) {
	e.stuck.Add(-1)
	t.ctx.cancel(nil)
	e.emitTask(EventStuckReturned, t, nil)
	if t.lane != nil {
		e.reopen(t.lane)
	}
}

// goroutineID reads the current goroutine's number off its stack header, the only
// place where the runtime tells it.
func goroutineID() int64 {
	var buf [64]byte
	header := buf[:runtime.Stack(buf[:], false)]
	fields := bytes.Fields(header)
	if len(fields) < 2 {
		return 0
	}
	id, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return id
}

// stackOf finds one goroutine's stack in a dump of all (at most 1 MiB).
func stackOf(goid int64) []byte {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for block := range bytes.SplitSeq(buf, []byte("\n\n")) {
		if bytes.HasPrefix(block, fmt.Appendf(nil, "goroutine %d ", goid)) {
			return bytes.Clone(block)
		}
	}
	return nil
}
