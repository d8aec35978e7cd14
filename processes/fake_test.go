package processes

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/goconsumer/consumer/core"
)

// fakeEngine runs a script in the place of a real engine.
type fakeEngine struct {
	cfg    core.EngineConfig
	script script

	mu      sync.Mutex
	state   core.Status
	aborted chan struct{}
	once    sync.Once
}

// script is one engine's life. It returns what Engine.Run would.
type script func(ctx context.Context, e *fakeEngine) error

func (e *fakeEngine) Run(ctx context.Context) error { return e.script(ctx, e) }
func (e *fakeEngine) Abort()                        { e.once.Do(func() { close(e.aborted) }) }
func (e *fakeEngine) Pause()                        { e.update(func(s *core.Status) { s.Paused = true }) }
func (e *fakeEngine) Resume()                       { e.update(func(s *core.Status) { s.Paused = false }) }
func (e *fakeEngine) Running() int                  { return 1 }
func (e *fakeEngine) Stuck() int                    { return 0 }
func (e *fakeEngine) Finished() int64               { return 10 }

func (e *fakeEngine) Status() core.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state
}

func (e *fakeEngine) update(change func(*core.Status)) {
	e.mu.Lock()
	change(&e.state)
	status := e.state
	e.mu.Unlock()
	for _, l := range e.cfg.Listeners {
		l(&core.Event{Kind: core.EventStatus, Status: status})
	}
}

func (e *fakeEngine) ready() {
	e.update(func(s *core.Status) { s.Ready, s.Reason = true, "" })
}

func (e *fakeEngine) notReady(reason string) {
	e.update(func(s *core.Status) { s.Ready, s.Reason = false, reason })
}

// works is ready until it is stopped.
func works(ctx context.Context, e *fakeEngine) error {
	e.ready()
	<-ctx.Done()
	return nil
}

// ends returns err at once, without ever having been ready.
func ends(err error) script {
	return func(context.Context, *fakeEngine) error { return err }
}

// crashes is ready and then ends by itself.
func crashes(_ context.Context, e *fakeEngine) error {
	e.ready()
	return errors.New("boom")
}

// fakeDriver opens publishers that take everything.
type fakeDriver struct {
	mu     sync.Mutex
	opened int
	closed int
	ended  int
}

func (d *fakeDriver) OpenSource(context.Context, core.Binding, core.Notices) (core.Source, error) {
	return nil, errors.ErrUnsupported
}

func (d *fakeDriver) OpenPublisher(context.Context, core.Binding) (core.PublishPort, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened++
	return fakePort{d}, nil
}

func (d *fakeDriver) Close(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended++
	return nil
}

type fakePort struct{ d *fakeDriver }

func (fakePort) Publish(context.Context, []core.Message) []error { return nil }

func (p fakePort) Close(context.Context) error {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.d.closed++
	return nil
}

// host is a manager of processes that follow scripts, by name.
type host struct {
	*Manager
	driver  *fakeDriver
	made    int // drivers
	mu      sync.Mutex
	engines map[string][]*fakeEngine
}

func newHost(t *testing.T, opts Options, scripts map[string]script, specs ...Spec) *host {
	t.Helper()
	h := &host{driver: &fakeDriver{}, engines: map[string][]*fakeEngine{}}
	opts.Endpoints = []Endpoint{{Name: "t", URL: "fake://host"}}
	opts.Drivers = map[string]DriverFunc{"fake": func(Endpoint) (core.Driver, error) { h.made++; return h.driver, nil }}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	for i := range specs {
		specs[i].Transport, specs[i].Queue = "t", "q"
	}
	m, err := New(specs, opts)
	if err != nil {
		t.Fatalf("new manager: %v", err)
	}
	m.newEngine = func(cfg core.EngineConfig) (engine, error) {
		name := cfg.Binding.Process
		e := &fakeEngine{cfg: cfg, script: scripts[name], aborted: make(chan struct{})}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.engines[name] = append(h.engines[name], e)
		return e, nil
	}
	h.Manager = m
	return h
}

// start runs the host until the returned stop is called; stop gives Run's error.
func (h *host) start(t *testing.T) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func (h *host) started(process string) []*fakeEngine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.engines[process]
}

func (h *host) state(process string) ProcessStatus {
	for _, s := range h.Status() {
		if s.Name == process {
			return s
		}
	}
	return ProcessStatus{}
}

// runs tells whether any process has not ended yet.
func (h *host) runs() bool {
	for _, s := range h.Status() {
		if s.State != StateStopped && s.State != StateFailed {
			return true
		}
	}
	return false
}
