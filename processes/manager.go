// Package processes hosts named consumer processes: it starts their engines,
// restarts what fails, stops everything in order and says how each one is.
//
// A process is a queue on a transport with one engine for each replica. Each
// replica is supervised by a loop of its own:
//
//	starting ──open──► running ──ends by itself──► crashed ──restart──► starting
//	   │  ▲                │                          └──limit──► failed
//	   │  └──retrying◄──── broker can't be reached (for ever, unless GiveUpAfter)
//	   └──setup fault──► failed            any ──stop──► stopping ──► stopped
//
// A ready-made supervisor (thejerf/suture) was tried and left: it knows one sort
// of failure, counts failures by a decaying rate for the whole tree and gives up
// on nothing alone. Here a broker that is down is no crash, a setup fault is
// final, and one process stops without its neighbours.
package processes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// DriverFunc makes the driver of one endpoint. It must not wait for the broker.
// A *core.SetupError stops the processes on that endpoint.
type DriverFunc func(e Endpoint) (core.Driver, error)

// DeadSinkFunc makes the dead-letter place on a Redis endpoint for a process
// whose own transport is another one (dead_letter.driver: redis_list). d is the
// endpoint's driver.
type DeadSinkFunc func(e Endpoint, d core.Driver, s Spec) (core.DeadSink, error)

// Options are what all processes of a host share.
type Options struct {
	Endpoints   []Endpoint
	Drivers     map[string]DriverFunc // by URL scheme: redis, rediss, embedded, …
	DeadSink    DeadSinkFunc          // nil: redis_list on another transport is a setup fault
	Registry    *core.Registry        // nil = an empty one
	Listeners   []core.Listener
	Hooks       Hooks
	GiveUpAfter time.Duration // not ready for so long ends Run with a *GiveUpError; 0 = never
	Logger      *slog.Logger  // default slog.Default()

	Child        ChildFunc       // nil: IsolationOS is a setup fault
	Relayed      []core.Listener // told the facts of child OS processes, which carry no Job
	FirstReplica int             // of a child: the number of its only replica
}

// Manager hosts processes. Make one with New and call Run once. Everything but
// Run may be called from any goroutine, before, during and after it.
type Manager struct {
	opts    Options
	drivers *drivers
	gate    *core.Gate

	// newEngine makes a replica's engine; tests put their own here.
	newEngine func(core.EngineConfig) (engine, error)

	stopping context.Context // done: stop softly, whatever Run's own context says
	stop     context.CancelFunc

	reloading sync.Mutex // one Reload at a time; before a slot's and mu
	mu        sync.Mutex
	setup     Setup           // as last reloaded
	slots     []*slot         // in the order of the specs
	running   context.Context // nil before Run
	over      bool            // Run has ended or is about to: nothing starts any more
	live      int             // processes that run, and changes under way
	changed   chan struct{}   // cap 1: live went down
	leftovers []*ProcessError // what processes left that were replaced
}

// slot is the place of one named process: those that follow one another by a
// restart or a reload.
type slot struct {
	steering sync.Mutex // one change at a time
	process  *process   // guarded by Manager.mu
	held     bool       // stopped by Stop; guarded by Manager.mu
	gone     bool       // a reload removed it; guarded by Manager.mu
}

// New checks the specs against the options and fills their defaults. A fault is a
// *core.SetupError; all of them are joined.
func New(specs []Spec, opts Options) (*Manager, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Registry == nil {
		opts.Registry = core.NewRegistry()
	}
	m := &Manager{
		opts: opts, drivers: newDrivers(opts.Drivers), gate: core.NewGate(), changed: make(chan struct{}, 1),
		newEngine: func(cfg core.EngineConfig) (engine, error) { return core.NewEngine(cfg) },
	}
	m.stopping, m.stop = context.WithCancel(context.Background())
	m.setup = Setup{Specs: specs, Endpoints: opts.Endpoints, Registry: opts.Registry, Child: opts.Child}
	made, err := m.newProcesses(m.setup)
	for _, p := range made {
		m.slots = append(m.slots, &slot{process: p})
	}
	return m, err
}

// newProcesses makes a process of each spec, all faults joined.
func (m *Manager) newProcesses(setup Setup) ([]*process, error) {
	var made []*process
	var faults []error
	names := map[string]bool{}
	for _, spec := range setup.Specs {
		if names[spec.Name] {
			faults = append(faults, setupError("there are two processes named %s; give each a name of its own", spec.Name))
			continue
		}
		names[spec.Name] = true
		p, err := newProcess(m, setup, spec.withDefaults())
		if err != nil {
			faults = append(faults, err)
			continue
		}
		made = append(made, p)
	}
	return made, errors.Join(faults...)
}

// Run starts every process and blocks until ctx ends and all have stopped (soft:
// no new jobs, running ones may finish for their shutdown_timeout), until none is
// left running and none was stopped by Stop, or until Abort. Its error is nil or a
// *StopError. Run installs no signal handlers.
func (m *Manager) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(m.stopping, stop)()

	m.mu.Lock()
	m.running = running
	for _, s := range m.slots {
		m.launch(s.process)
	}
	m.mu.Unlock()
	var watcher sync.WaitGroup
	if m.opts.GiveUpAfter > 0 {
		watcher.Go(func() { m.watchReadiness(running) })
	}
	asked := m.awaitEnd(running)
	stop()
	watcher.Wait()
	m.drivers.close(m.opts.Logger)
	return m.verdict(asked)
}

// launch runs a process beside the others. mu is held.
func (m *Manager) launch(p *process) {
	m.live++
	go func() {
		p.run(m.running)
		m.done()
	}()
}

// done notes that something that counts in live has ended.
func (m *Manager) done() {
	m.mu.Lock()
	m.live--
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// awaitEnd blocks until nothing runs and nothing will. asked: somebody wanted it.
func (m *Manager) awaitEnd(running context.Context) (asked bool) {
	stopping := running.Done()
	for {
		m.mu.Lock()
		asked = running.Err() != nil
		held := slices.ContainsFunc(m.slots, func(s *slot) bool { return s.held })
		m.over = m.live == 0 && (asked || !held)
		over := m.over
		m.mu.Unlock()
		if over {
			return asked
		}
		select {
		case <-m.changed:
		case <-stopping:
			stopping = nil
		}
	}
}

// Abort makes the stop hard: handlers are cancelled and Run returns after one
// try to release what they held. It may be called more than once.
func (m *Manager) Abort() {
	m.stop()
	for _, p := range m.current() {
		p.abort()
	}
}

// Status is the state of every hosted process, in the order of the specs.
func (m *Manager) Status() []ProcessStatus {
	status := []ProcessStatus{}
	for _, p := range m.current() {
		status = append(status, p.status())
	}
	return status
}

// current are the processes that are hosted now.
func (m *Manager) current() []*process {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*process, len(m.slots))
	for i, s := range m.slots {
		all[i] = s.process
	}
	return all
}

// process finds a process, nil when there is none of that name.
func (m *Manager) process(name string) *process {
	for _, p := range m.current() {
		if p.spec.Name == name {
			return p
		}
	}
	return nil
}

// Inspect asks the broker what a process's queue holds. errors.ErrUnsupported
// means that its driver can't tell.
func (m *Manager) Inspect(ctx context.Context, name string) (core.QueueStats, error) {
	p := m.process(name)
	if p == nil {
		return core.QueueStats{}, &UnknownProcessError{name}
	}
	driver, err := m.drivers.open(p.endpoint)
	if err != nil {
		return core.QueueStats{}, err
	}
	inspector, ok := driver.(core.Inspector)
	if !ok {
		return core.QueueStats{}, errors.ErrUnsupported
	}
	stats, err := inspector.Inspect(ctx, p.binding(0))
	if err == nil {
		stats.Dead, err = p.countDead(ctx, stats.Dead)
	}
	return stats, err
}

// watchReadiness ends Run when a process has not been ready for GiveUpAfter. Its
// engines are stopped hard, since nothing gets through to their broker; the
// others drain.
func (m *Manager) watchReadiness(running context.Context) {
	limit := m.opts.GiveUpAfter
	tick := time.NewTicker(min(limit/4+1, 500*time.Millisecond))
	defer tick.Stop()
	lastReady := map[string]time.Time{}
	begin := time.Now()
	for {
		select {
		case <-running.Done():
			return
		case <-tick.C:
		}
		for _, p := range m.current() {
			s := p.status()
			since, known := lastReady[s.Name]
			if !known {
				since = begin
			}
			if s.Ready || s.State == StateFailed || s.State == StateStopped {
				lastReady[s.Name] = time.Now()
			} else if time.Since(since) >= limit {
				p.giveUp(&GiveUpError{After: limit, Reason: s.Reason})
				m.stop()
				return
			}
		}
	}
}
