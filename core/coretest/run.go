package coretest

import (
	"context"

	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
)

// Config changes how Run runs a job. The zero value is the default process on a
// broker that settles atomically.
type Config struct {
	Retry   core.RetryPolicy // default: the process's default without jitter
	Timeout time.Duration    // handler_timeout; default: none
	// Shape is the kind of broker; default drivertest.Republishing.
	Shape drivertest.Shape
	// Faults is what goes wrong at the broker.
	Faults []drivertest.Fault
	// CrashIn lists runs of the handler, from 1, after which the worker dies: the
	// handler has returned, its result reaches nobody. A new worker starts at once.
	CrashIn []int
	// Limit is how long (on the virtual clock) the job may take until Run gives up;
	// default 30 days.
	Limit time.Duration
	// Engine changes anything else.
	Engine func(*core.EngineConfig)
}

// The two queues of a run: the job's own, and what its handler publishes to.
const (
	queue     = "coretest"
	published = "coretest.published"
)

// Run publishes job, runs it until it succeeds, is discarded or is a dead
// letter, and returns what happened. It fails t when the job has no end within
// Config.Limit.
func Run(t *testing.T, reg *core.Registry, job *core.Job, cfg Config) *Trace {
	t.Helper()
	var trace *Trace
	synctest.Test(t, func(t *testing.T) { trace = Play(t, reg, job, cfg) })
	return trace
}

// Play is Run in a bubble that the caller has made. Outside of one it works as
// well, on the real clock.
func Play(t testing.TB, reg *core.Registry, job *core.Job, cfg Config) *Trace {
	t.Helper()
	p := newPlay(t, reg, cfg)
	p.publish(job)
	for !p.trace.ended() {
		p.work()
	}
	p.collect()
	return p.trace.Trace
}

// play is one call of Play.
type play struct {
	t     testing.TB
	cfg   Config
	view  *core.RegistryView // the caller's handlers
	outer *core.RegistryView // the same, able to crash
	m     *drivertest.Memory
	trace *recording
	limit <-chan time.Time
	runs  int
	crash chan struct{} // a run after which the worker dies has returned
}

func newPlay(t testing.TB, reg *core.Registry, cfg Config) *play {
	t.Helper()
	if cfg.Shape.Name == "" {
		cfg.Shape = drivertest.Republishing()
	}
	if cfg.Limit == 0 {
		cfg.Limit = 30 * 24 * time.Hour
	}
	if cfg.Retry == (core.RetryPolicy{}) {
		cfg.Retry = core.DefaultRetryPolicy()
		cfg.Retry.Jitter = 0
	}
	p := &play{
		t: t, cfg: cfg, m: drivertest.NewMemory(cfg.Shape), trace: newRecording(),
		limit: time.After(cfg.Limit), crash: make(chan struct{}),
	}
	for _, f := range cfg.Faults {
		p.m.Inject(f)
	}
	var err error
	if p.view, err = reg.View(nil); err != nil {
		t.Fatalf("coretest: registry: %v", err)
	}
	outer := core.NewRegistry()
	for _, pattern := range p.view.Types() {
		if err := outer.Handle(pattern, p.handle); err != nil {
			t.Fatalf("coretest: registry: %v", err)
		}
	}
	if p.outer, err = outer.View(nil); err != nil {
		t.Fatalf("coretest: registry: %v", err)
	}
	return p
}

// handle runs the caller's handler and, where the script says so, lets the worker
// die before the result is known to anybody. Only one job exists, so no two
// calls overlap.
func (p *play) handle(ctx context.Context, job *core.Job) error {
	p.runs++
	dies := slices.Contains(p.cfg.CrashIn, p.runs)
	h, _ := p.view.Lookup(job.Type)
	err := h(ctx, job)
	if !dies {
		return err
	}
	select {
	case p.crash <- struct{}{}:
	case <-ctx.Done():
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (p *play) binding(queue string) core.Binding {
	return core.Binding{
		Process: "coretest", Queue: queue, Concurrency: 1,
		Logger: slog.New(slog.NewTextHandler(p.t.Output(), nil)),
	}
}

func (p *play) port(queue string) core.PublishPort {
	p.t.Helper()
	port, err := p.m.Open().OpenPublisher(p.t.Context(), p.binding(queue))
	if err != nil {
		p.t.Fatalf("coretest: open publisher: %v", err)
	}
	return port
}

func (p *play) publish(job *core.Job) {
	p.t.Helper()
	if err := core.NewPublisher(p.port(queue)).Publish(p.t.Context(), job); err != nil {
		p.t.Fatalf("coretest: publish: %v", err)
	}
	p.trace.start = time.Now()
}

// work runs one worker until the job has ended or the worker dies.
func (p *play) work() {
	p.t.Helper()
	d := p.m.Open()
	cfg := core.EngineConfig{
		Transport: "memory", Driver: d, Binding: p.binding(queue), Handlers: p.outer,
		Publisher: core.NewPublisher(p.port(published)),
		Retry:     p.cfg.Retry, Timeout: p.cfg.Timeout,
		Listeners: []core.Listener{p.trace.listen},
	}
	if p.cfg.Engine != nil {
		p.cfg.Engine(&cfg)
	}
	e, err := core.NewEngine(cfg)
	if err != nil {
		p.t.Fatalf("coretest: %v", err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(p.t.Context()))
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()

	select {
	case <-p.trace.end:
		stop()
	case <-p.crash:
		p.trace.died()
		d.Crash()
		e.Abort()
	case err := <-ended:
		p.t.Fatalf("coretest: the engine stopped: %v\n%s", err, p.trace.Trace)
	case <-p.limit:
		e.Abort()
		_ = <-ended
		p.t.Fatalf("coretest: the job has not ended within %v:\n%s", p.cfg.Limit, p.trace.Trace)
	}
	_ = <-ended // it was told to stop, or died with its broker
}

// collect reads what is left at the broker.
func (p *play) collect() {
	p.t.Helper()
	if dead := p.m.Held(queue).Dead; len(dead) > 0 {
		p.trace.Dead = &dead[len(dead)-1]
	}
	held := p.m.Held(published)
	for _, body := range slices.Concat(held.Ready, held.Delayed) {
		job, err := core.Decode(body)
		if err != nil {
			p.t.Fatalf("coretest: the handler published what is no envelope: %v", err)
		}
		p.trace.Published = append(p.trace.Published, job)
	}
}
