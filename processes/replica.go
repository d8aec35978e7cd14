package processes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goconsumer/consumer/core"
)

// minStable is how long a replica must have been up, at least, for its earlier
// crashes to be forgotten.
const minStable = 10 * time.Second

// replica supervises one engine after the other.
type replica struct {
	process *process
	index   int
	logger  *slog.Logger

	tried    atomic.Bool // an engine of this replica was ready, or had no luck
	restarts atomic.Int64
	finished atomic.Int64 // by engines that ended

	mu      sync.Mutex
	engine  engine // nil between two engines
	trouble string // why there is none
}

// supervise runs engines until ctx ends or the process fails.
func (r *replica) supervise(ctx context.Context) {
	spec := r.process.spec
	var row streak
	for ctx.Err() == nil {
		up, err := r.runOnce(ctx)
		if ctx.Err() != nil {
			r.stopped(err)
			return
		}
		if final(err) {
			r.process.fail(err)
			return
		}
		if recycled, ok := errors.AsType[*recycledError](err); ok {
			r.recycled(recycled)
			row = streak{}
			continue
		}
		row.add(up >= max(spec.Restart.Max, minStable), up > 0, err)
		if row.crashes > spec.Restart.Limit && spec.Restart.Limit > 0 {
			err = &CrashLoopError{Crashes: row.crashes, Err: err}
			r.process.exception(err)
			r.process.fail(err)
			return
		}
		r.wait(ctx, err, row)
	}
}

// streak counts what went wrong in a row.
type streak struct {
	crashes int // by itself
	falls   int // crashes, and ends of children that had work
	misses  int // the broker could not be reached, which is no crash
}

// add counts the end of an engine that was up for long enough to forget what came
// before (stable), or at all (up).
func (s *streak) add(stable, up bool, err error) {
	if stable {
		*s = streak{}
	}
	vanished, gone := errors.AsType[*vanishedError](err)
	switch {
	case gone && vanished.worked:
		s.falls, s.misses = s.falls+1, 0
	case up || gone || panicked(err):
		s.crashes, s.falls, s.misses = s.crashes+1, s.falls+1, 0
	default:
		s.misses++
	}
}

// wait is the pause before the next try.
func (r *replica) wait(ctx context.Context, err error, row streak) {
	delay := r.process.spec.Restart.delay(max(row.misses, row.falls))
	text := MaskURL(err.Error())
	if row.misses > 0 {
		r.logger.Warn("process.unreachable", "error", text, "tries", row.misses, "delay_ms", delay.Milliseconds())
	} else {
		r.restarts.Add(1)
		r.logger.Error("process.crashed", "error", text, "crashes", row.falls, "delay_ms", delay.Milliseconds())
		r.process.exception(err)
	}
	r.tried.Store(true)
	r.setEngine(nil, text)
	pause(ctx, delay)
}

// delay is the wait before the nth try in a row.
func (r Restart) delay(n int) time.Duration {
	backoff := core.RetryPolicy{Type: core.RetryExponential, MaxAttempts: 1, BaseDelay: r.Initial, Multiplier: 2, MaxDelay: r.Max, Jitter: 0.2}
	return backoff.Delay(max(n, 1), nil, rand.Float64())
}

// pause waits, at most until ctx ends.
func pause(ctx context.Context, delay time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(delay):
	}
}

// recycled notes that an engine made room for a fresh one.
func (r *replica) recycled(err *recycledError) {
	r.logger.Info("process.recycled", "limit", err.after)
	if err.left != nil {
		r.stopped(err.left)
	}
}

// final tells the failures that no new engine can mend.
func final(err error) bool {
	_, setup := errors.AsType[*core.SetupError](err)
	return setup || errors.Is(err, core.ErrTooManyStuck)
}

// stopped notes the end of an engine that was asked to stop. What it says about
// the broker does not matter any more; jobs that it could not settle do.
func (r *replica) stopped(err error) {
	if u, ok := errors.AsType[*core.UnsettledError](err); ok {
		r.process.leftUnsettled(u)
		r.logger.Error("process.unsettled", "jobs", len(u.IDs), "error", MaskURL(err.Error()))
	} else if v, ok := errors.AsType[*vanishedError](err); ok {
		r.process.leftUnsettled(v)
		r.logger.Error("process.unsettled", "error", MaskURL(err.Error()))
	}
}

// panicError is a panic in an engine's own goroutine.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panicked: %v", e.value) }

func panicked(err error) bool {
	_, ok := errors.AsType[*panicError](err)
	return ok
}

// runOnce runs one engine to its end. up is how long it went on after it was
// first ready; 0 means that it never was.
func (r *replica) runOnce(ctx context.Context) (up time.Duration, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{v}
			r.logger.Error("process.panicked", "error", MaskURL(err.Error()), "stack", string(debug.Stack()))
		}
	}()
	recycler, running, end := newRecycler(ctx, r.process.spec.Recycle)
	defer end()
	var readySince atomic.Pointer[time.Time]
	engine, closeAfter, err := r.newEngine(running, recycler, func(e *core.Event) {
		switch {
		case e.Kind == core.EventStatus && e.Status.Ready:
			now := time.Now()
			readySince.CompareAndSwap(nil, &now)
			r.tried.Store(true)
		case e.Kind == core.EventFinished:
			recycler.note(e)
		case e.Kind == core.EventPanicked && e.Err != nil: // nil: relayed, and the child's own matter
			r.process.exception(e.Err)
		}
	})
	if err != nil {
		return 0, err
	}
	defer closeAfter()
	r.setEngine(engine, "")
	defer r.retire(engine)
	r.applyPause()
	if _, aborted := r.process.flags(); aborted {
		engine.Abort()
	}
	err = engine.Run(running)
	if since := readySince.Load(); since != nil {
		up = max(time.Since(*since), 1)
	}
	recycled, ok := errors.AsType[*recycledError](context.Cause(running))
	switch {
	case ctx.Err() == nil && ok && !final(err):
		recycled.left = err
		err = recycled
	case ctx.Err() == nil && err == nil:
		err = errors.New("the engine ended without a reason")
	}
	return up, err
}

// newEngine makes the engine for one run, here or in a child OS process, and what
// is to be done after it.
func (r *replica) newEngine(ctx context.Context, recycler *recycler, watch core.Listener) (engine, func(), error) {
	p := r.process
	if p.spec.Isolation == IsolationOS {
		config, err := p.child(p.spec, r.index)
		if err != nil {
			return nil, nil, err
		}
		full := func() { recycler.due("memory") }
		return newChild(p.spec, config, watch, r.relay, full, newOutputLog(r.logger)), func() {}, nil
	}
	driver, err := p.host.drivers.open(p.endpoint)
	if err != nil {
		return nil, nil, err
	}
	port, err := driver.OpenPublisher(ctx, p.binding(r.index))
	if err != nil {
		return nil, nil, fmt.Errorf("open publisher: %w", err)
	}
	publisher := core.NewPublisher(port, core.WithFormat(p.spec.Format),
		core.WithListeners(p.spec.Name, p.spec.Transport, p.spec.Queue, p.host.opts.Listeners...))
	sink, err := p.deadSink()
	if err != nil {
		r.closePublisher(publisher)
		return nil, nil, err
	}
	engine, err := p.host.newEngine(p.engineConfig(r, driver, publisher, sink, watch))
	if err != nil { // what it was given is wrong, and stays so
		r.closePublisher(publisher)
		return nil, nil, &core.SetupError{Sentence: err.Error(), Err: err}
	}
	return engine, func() { r.closePublisher(publisher) }, nil
}

// relay tells the host's listeners a fact of a child.
func (r *replica) relay(e *core.Event) {
	e.Time, e.Process, e.Transport, e.Queue = time.Now(), r.process.spec.Name, r.process.spec.Transport, r.process.spec.Queue
	for _, listener := range r.process.host.opts.Relayed {
		listener(e)
	}
}

func (r *replica) closePublisher(publisher *core.Publisher) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := publisher.Close(ctx); err != nil {
		r.logger.Warn("publisher.close_failed", "error", MaskURL(err.Error()))
	}
}

func (r *replica) setEngine(e engine, trouble string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine, r.trouble = e, trouble
}

// retire keeps the count of an engine that ended.
func (r *replica) retire(e engine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished.Add(e.Finished())
	r.engine = nil
}

// current is the engine that runs, nil when there is none.
func (r *replica) current() engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engine
}

func (r *replica) abort() {
	if e := r.current(); e != nil {
		e.Abort()
	}
}

func (r *replica) applyPause() {
	paused, _ := r.process.flags()
	switch e := r.current(); {
	case e == nil: // the next one is told at its start
	case paused:
		e.Pause()
	default:
		e.Resume()
	}
}

// health is the engine's own status, or why there is no engine.
func (r *replica) health() core.Status {
	r.mu.Lock()
	e, trouble := r.engine, r.trouble
	r.mu.Unlock()
	switch {
	case e != nil:
		return e.Status()
	case trouble != "":
		return core.Status{Reason: trouble}
	}
	return core.Status{Reason: "not subscribed yet to " + r.process.spec.Queue}
}

// addTo adds this replica's numbers to its process's.
func (r *replica) addTo(s *ProcessStatus) {
	if e := r.current(); e != nil {
		s.Running += e.Running()
		s.Stuck += e.Stuck()
		s.Finished += e.Finished()
		if c, ok := e.(*child); ok && c.pid.Load() > 0 {
			s.PIDs = append(s.PIDs, int(c.pid.Load()))
		}
	}
	s.Finished += r.finished.Load()
	s.Restarts += r.restarts.Load()
}
