package drivertest

import (
	"context"
	"time"

	"github.com/goconsumer/consumer/core"
)

// handlers are a case's handlers by job type.
type handlers map[string]core.Handler

// worker is one OS process with an engine in it.
type worker struct {
	k     *kit
	d     core.Driver
	e     *core.Engine
	stop  context.CancelFunc
	ended chan struct{}
	err   error // of Run, once ended
}

// start runs an engine over a driver of its own until the case ends. Each
// handler call is noted in the ledger.
func (k *kit) start(hs handlers, adjust ...func(*core.EngineConfig)) *worker {
	k.Helper()
	return k.startOn(k.open(), hs, adjust...)
}

func (k *kit) startOn(d core.Driver, hs handlers, adjust ...func(*core.EngineConfig)) *worker {
	k.Helper()
	reg := core.NewRegistry()
	for pattern, h := range hs {
		noted := func(ctx context.Context, j *core.Job) (err error) {
			end := k.ledger.begin(j)
			succeeded := false
			defer func() { end(succeeded) }()
			err = h(ctx, j)
			succeeded = err == nil && ctx.Err() == nil // after a cancellation nobody believes it
			return err
		}
		if err := reg.Handle(pattern, noted); err != nil {
			k.Fatalf("register %s: %v", pattern, err)
		}
	}
	view, err := reg.View(nil)
	if err != nil {
		k.Fatalf("registry view: %v", err)
	}
	cfg := core.EngineConfig{
		Transport: "kit", Driver: d, Binding: k.b, Handlers: view,
		Retry:           core.RetryPolicy{Type: core.RetryFixed, MaxAttempts: 3, BaseDelay: 20 * time.Millisecond},
		ShutdownTimeout: k.limits.Patience / 2,
		Listeners:       []core.Listener{k.ledger.listen},
		Logger:          k.b.Logger,
	}
	for _, f := range adjust {
		f(&cfg)
	}
	e, err := core.NewEngine(cfg)
	if err != nil {
		k.Fatalf("new engine: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(k.quit))
	w := &worker{k: k, d: d, e: e, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		w.err = e.Run(ctx)
	}()
	k.Cleanup(w.abort)
	return w
}

// drain stops the engine gracefully and returns what Run said.
func (w *worker) drain() error {
	w.k.Helper()
	w.stop()
	w.join()
	return w.err
}

// crash makes the process vanish, handlers included.
func (w *worker) crash() {
	w.k.Helper()
	w.k.h.Crash(w.k, w.d)
	w.abort()
}

// abort ends the engine at once.
func (w *worker) abort() {
	w.k.Helper()
	w.e.Abort()
	w.stop()
	w.join()
}

func (w *worker) join() {
	w.k.Helper()
	limit := time.NewTimer(2 * w.k.limits.Patience)
	defer limit.Stop()
	select {
	case <-w.ended:
	case <-limit.C:
		w.k.Fatalf("the engine has not stopped after %v", 2*w.k.limits.Patience)
	}
}

// ready waits until the worker says that it fetches.
func (w *worker) ready() {
	w.k.Helper()
	w.k.await("the worker is ready", w.k.limits.Patience, func() bool { return w.e.Status().Ready })
}

func succeed(context.Context, *core.Job) error { return nil }

// sleep is a handler's work of a given length, which ends early with its
// context.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
