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
	crashes, misses := 0, 0
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
		switch {
		case up >= max(spec.Restart.Max, minStable):
			crashes, misses = 1, 0
		case up > 0 || panicked(err):
			crashes, misses = crashes+1, 0
		default:
			misses++ // the broker can't be reached, which is no crash
		}
		if crashes > spec.Restart.Limit && spec.Restart.Limit > 0 {
			r.process.fail(&CrashLoopError{Crashes: crashes, Err: err})
			return
		}
		r.wait(ctx, err, crashes, misses)
	}
}

// wait is the pause before the next try.
func (r *replica) wait(ctx context.Context, err error, crashes, misses int) {
	spec := r.process.spec.Restart
	backoff := core.RetryPolicy{Type: core.RetryExponential, MaxAttempts: 1, BaseDelay: spec.Initial, Multiplier: 2, MaxDelay: spec.Max, Jitter: 0.2}
	delay := backoff.Delay(max(misses, crashes, 1), nil, rand.Float64())
	text := MaskURL(err.Error())
	if misses > 0 {
		r.logger.Warn("process.unreachable", "error", text, "tries", misses, "delay_ms", delay.Milliseconds())
	} else {
		r.restarts.Add(1)
		r.logger.Error("process.crashed", "error", text, "crashes", crashes, "delay_ms", delay.Milliseconds())
	}
	r.tried.Store(true)
	r.setEngine(nil, text)
	select {
	case <-ctx.Done():
	case <-time.After(delay):
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
	p := r.process
	driver, err := p.host.drivers.open(p.spec.Transport)
	if err != nil {
		return 0, err
	}
	port, err := driver.OpenPublisher(ctx, p.binding(r.index))
	if err != nil {
		return 0, fmt.Errorf("open publisher: %w", err)
	}
	publisher := core.NewPublisher(port, core.WithFormat(p.spec.Format),
		core.WithListeners(p.spec.Name, p.spec.Transport, p.spec.Queue, p.host.opts.Listeners...))
	defer r.closePublisher(publisher)

	sink, err := p.deadSink()
	if err != nil {
		return 0, err
	}
	var readySince atomic.Pointer[time.Time]
	watch := func(e *core.Event) {
		if e.Kind == core.EventStatus && e.Status.Ready {
			now := time.Now()
			readySince.CompareAndSwap(nil, &now)
			r.tried.Store(true)
		}
	}
	engine, err := p.newEngine(p.engineConfig(r, driver, publisher, sink, watch))
	if err != nil { // what it was given is wrong, and stays so
		return 0, &core.SetupError{Sentence: err.Error(), Err: err}
	}
	r.setEngine(engine, "")
	defer r.retire(engine)
	r.applyPause()
	if _, aborted := p.flags(); aborted {
		engine.Abort()
	}
	err = engine.Run(ctx)
	if since := readySince.Load(); since != nil {
		up = max(time.Since(*since), 1)
	}
	if err == nil && ctx.Err() == nil {
		err = errors.New("the engine ended without a reason")
	}
	return up, err
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
	}
	s.Finished += r.finished.Load()
	s.Restarts += r.restarts.Load()
}
