package processes

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/goconsumer/consumer/core"
)

// engine is what the supervisor needs of a *core.Engine.
type engine interface {
	Run(ctx context.Context) error
	Abort()
	Pause()
	Resume()
	Status() core.Status
	Running() int
	Stuck() int
	Finished() int64
}

var _ engine = (*core.Engine)(nil)

// process is one hosted process: its replicas and what became of them.
type process struct {
	spec   Spec
	host   *Manager
	view   *core.RegistryView
	logger *slog.Logger

	// newEngine makes a replica's engine; tests put their own here.
	newEngine func(core.EngineConfig) (engine, error)

	replicas []*replica

	mu        sync.Mutex
	stop      context.CancelFunc // nil before run
	state     State              // starting until it is stopping, stopped or failed
	err       error              // why it failed, or what its stop left unsettled
	paused    bool
	aborted   bool
	unsettled []*core.UnsettledError // what a stop left, one for each replica
	sink      core.DeadSink          // made once; see deadSink
}

func newProcess(m *Manager, spec Spec) (*process, error) {
	p := &process{
		spec:      spec,
		host:      m,
		state:     StateStarting,
		logger:    m.opts.Logger.With("process", spec.Name, "transport", spec.Transport, "queue", spec.Queue),
		newEngine: func(cfg core.EngineConfig) (engine, error) { return core.NewEngine(cfg) },
	}
	if spec.Name == "" || spec.Queue == "" {
		return nil, setupError("a process needs a name and a queue")
	}
	if err := m.drivers.check(spec.Transport); err != nil {
		return nil, &ProcessError{spec.Name, err}
	}
	view, err := m.opts.Registry.View(spec.Types)
	if err != nil {
		return nil, &ProcessError{spec.Name, &core.SetupError{Sentence: err.Error(), Err: err}}
	}
	p.view = view
	for i := range spec.Replicas {
		p.replicas = append(p.replicas, &replica{process: p, index: i, logger: p.logger.With("replica", i)})
	}
	return p, nil
}

// run hosts the replicas until ctx ends or one of them fails for good.
func (p *process) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, p.draining)()
	p.mu.Lock()
	p.stop = stop
	p.mu.Unlock()
	if len(p.view.Types()) == 0 {
		p.logger.Warn("process.no_handlers", "fix", "register handlers: without one every job is unregistered, a dead letter")
	}

	var all sync.WaitGroup
	for _, r := range p.replicas {
		all.Go(func() { r.supervise(ctx) })
	}
	all.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != StateFailed {
		p.state = StateStopped
	}
}

func (p *process) draining() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == StateStarting {
		p.state = StateStopping
	}
}

// fail stops the whole process for good. The first reason stays.
func (p *process) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == StateFailed {
		return
	}
	p.state, p.err = StateFailed, err
	p.stop()
	p.logger.Error("process.failed", "error", MaskURL(err.Error()))
}

func (p *process) giveUp(err *GiveUpError) {
	p.fail(err)
	p.abort()
}

func (p *process) abort() {
	p.mu.Lock()
	p.aborted = true
	p.mu.Unlock()
	for _, r := range p.replicas {
		r.abort()
	}
}

func (p *process) setPaused(paused bool) {
	p.mu.Lock()
	p.paused = paused
	p.mu.Unlock()
	for _, r := range p.replicas {
		r.applyPause()
	}
}

// flags are what a new engine has to be told.
func (p *process) flags() (paused, aborted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused, p.aborted
}

// leftUnsettled notes what a stop could not settle.
func (p *process) leftUnsettled(err *core.UnsettledError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsettled = append(p.unsettled, err)
}

func (p *process) status() ProcessStatus {
	s := ProcessStatus{
		Name: p.spec.Name, Transport: p.spec.Transport, Queue: p.spec.Queue,
		Replicas: len(p.replicas),
	}
	var health []core.Status
	tried := false
	for _, r := range p.replicas {
		r.addTo(&s)
		health = append(health, r.health())
		tried = tried || r.tried.Load()
	}
	p.mu.Lock()
	state, err := p.state, p.err
	p.mu.Unlock()
	s.State = state
	switch {
	case err != nil:
		s.Reason = err.Error()
		s.NeedsRestart = errors.Is(err, core.ErrTooManyStuck)
	case state == StateStarting:
		s.State, s.Reason = combine(health, tried)
		s.Ready = s.State == StateRunning || s.State == StatePaused
	default:
		s.Reason = "it is " + string(state)
	}
	s.Reason = MaskURL(s.Reason)
	return s
}

// binding is what replica i subscribes to.
func (p *process) binding(i int) core.Binding {
	return core.Binding{
		Process:     p.spec.Name,
		Replica:     i,
		Queue:       p.spec.Queue,
		Concurrency: p.spec.Concurrency,
		Priority:    p.spec.Priority,
		Ordering:    p.spec.Ordering,
		DeadLetters: p.spec.DeadLetter.DeadLetterPolicy,
		Accept:      p.spec.Accept,
		Options:     p.spec.Options,
		Logger:      p.host.opts.Logger.With("process", p.spec.Name, "transport", p.spec.Transport, "replica", i),
	}
}
