package processes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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

// process is one hosted process: its replicas and what became of them. It runs
// once; a restarted process is another one.
type process struct {
	spec         Spec
	endpoint     Endpoint
	deadEndpoint Endpoint // redis_list elsewhere; zero = none
	host         *Manager
	view         *core.RegistryView
	child        ChildFunc
	logger       *slog.Logger

	replicas []*replica

	stopped context.Context // ends with stop
	stop    context.CancelFunc
	ended   chan struct{} // closed when it runs no more

	mu        sync.Mutex
	state     State // starting until it is stopping, stopped or failed
	err       error // why it failed
	paused    bool
	aborted   bool
	unsettled []error       // what a stop left, one for each replica
	sink      core.DeadSink // made once; see deadSink
}

func newProcess(m *Manager, setup Setup, spec Spec) (*process, error) {
	p := &process{
		spec:   spec,
		host:   m,
		child:  setup.Child,
		state:  StateStarting,
		logger: m.opts.Logger.With("process", spec.Name, "transport", spec.Transport, "queue", spec.Queue),
		ended:  make(chan struct{}),
	}
	if spec.Name == "" || spec.Queue == "" {
		return nil, setupError("a process needs a name and a queue")
	}
	view, err := setup.Registry.View(spec.Types)
	if err != nil {
		return nil, &ProcessError{spec.Name, &core.SetupError{Sentence: err.Error(), Err: err}}
	}
	if err := errors.Join(p.findEndpoints(setup.Endpoints), p.checkIsolation()); err != nil {
		return nil, &ProcessError{spec.Name, err}
	}
	p.view = view
	p.stopped, p.stop = context.WithCancel(context.Background())
	for i := range spec.Replicas {
		index := m.opts.FirstReplica + i
		p.replicas = append(p.replicas, &replica{process: p, index: index, logger: p.logger.With("replica", index)})
	}
	return p, nil
}

// findEndpoints looks up what the spec names.
func (p *process) findEndpoints(all []Endpoint) error {
	find := func(name string) (Endpoint, error) {
		i := slices.IndexFunc(all, func(e Endpoint) bool { return e.Name == name })
		if i < 0 {
			return Endpoint{}, setupError("there is no transport named %q; add it or name another one", name)
		}
		return all[i], p.host.drivers.check(all[i])
	}
	var err error
	if p.endpoint, err = find(p.spec.Transport); err != nil {
		return err
	}
	if dead := p.spec.DeadLetter; dead.Driver == DeadRedisList && dead.Transport != "" && dead.Transport != p.spec.Transport {
		p.deadEndpoint, err = find(dead.Transport)
	}
	return err
}

// checkIsolation refuses what this program or system cannot do.
func (p *process) checkIsolation() error {
	s := p.spec
	limited := s.MemoryLimit > 0 || s.Recycle.Memory > 0
	switch {
	case s.Isolation == IsolationOS && p.child == nil:
		return setupError("this program cannot start itself as a child process; set isolation: goroutine")
	case limited && s.Isolation != IsolationOS:
		return setupError("memory_limit and recycle.memory need isolation: os, since the memory of goroutines can't be told apart")
	case limited && !canLimitMemory:
		return setupError("memory_limit and recycle.memory need Linux; leave them out")
	}
	return nil
}

// run hosts the replicas until ctx ends, the process is stopped or one of them fails
// for good.
func (p *process) run(ctx context.Context) {
	defer close(p.ended)
	ctx, stop := context.WithCancel(ctx)
	defer context.AfterFunc(p.stopped, stop)()
	var drained sync.WaitGroup
	drained.Go(func() {
		<-ctx.Done()
		p.draining()
	})
	if len(p.view.Types()) == 0 {
		p.logger.Warn("process.no_handlers", "fix", "register handlers: without one every job is unregistered, a dead letter")
	}
	hooked := p.spec.Isolation != IsolationOS // else the children call them
	if !hooked || p.hookInit(ctx) {
		var all sync.WaitGroup
		for _, r := range p.replicas {
			all.Go(func() { r.supervise(ctx) })
		}
		all.Wait()
		stop()
		drained.Wait()
		if hooked {
			p.hookShutdown()
		}
	}
	stop()
	drained.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != StateFailed {
		p.state = StateStopped
	}
}

// draining notes the begin of a stop.
func (p *process) draining() {
	p.mu.Lock()
	if p.state == StateStarting {
		p.state = StateStopping
	}
	p.mu.Unlock()
	if p.spec.Isolation != IsolationOS {
		p.hookDrain()
	}
}

// hasEnded says whether it runs no more.
func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// neverRan makes a process that only stands for one that was stopped.
func (p *process) neverRan() {
	p.state = StateStopped
	close(p.ended)
}

// inherit takes over what outlives a restart.
func (p *process) inherit(old *process) {
	old.mu.Lock()
	p.paused = old.paused
	old.mu.Unlock()
	before := ProcessStatus{}
	for _, r := range old.replicas {
		r.addTo(&before)
	}
	p.replicas[0].restarts.Store(before.Restarts) // counters never go down
	p.replicas[0].finished.Store(before.Finished)
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
func (p *process) leftUnsettled(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsettled = append(p.unsettled, err)
}

// unsettledErrors are what the stop left, by process.
func (p *process) unsettledErrors() []*ProcessError {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []*ProcessError
	for _, err := range p.unsettled {
		errs = append(errs, &ProcessError{p.spec.Name, err})
	}
	return errs
}

func (p *process) status() ProcessStatus {
	s := ProcessStatus{
		Name: p.spec.Name, Transport: p.spec.Transport, Queue: p.spec.Queue,
		Isolation: p.spec.Isolation, Replicas: len(p.replicas),
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
