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
	GiveUpAfter time.Duration // not ready for so long ends Run with a *GiveUpError; 0 = never
	Logger      *slog.Logger  // default slog.Default()
}

// Manager hosts processes. Make one with New and call Run once. Everything but
// Run may be called from any goroutine, before, during and after it.
type Manager struct {
	opts      Options
	drivers   *drivers
	gate      *core.Gate
	processes []*process

	stopping context.Context // done: stop softly, whatever Run's own context says
	stop     context.CancelFunc
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
	m := &Manager{opts: opts, drivers: newDrivers(opts.Endpoints, opts.Drivers), gate: core.NewGate()}
	m.stopping, m.stop = context.WithCancel(context.Background())
	var faults []error
	for _, spec := range specs {
		if m.process(spec.Name) != nil {
			faults = append(faults, setupError("there are two processes named %s; give each a name of its own", spec.Name))
			continue
		}
		p, err := newProcess(m, spec.withDefaults())
		if err != nil {
			faults = append(faults, err)
			continue
		}
		m.processes = append(m.processes, p)
	}
	return m, errors.Join(faults...)
}

// Run starts every process and blocks until ctx ends and all have stopped (soft:
// no new jobs, running ones may finish for their shutdown_timeout), until none is
// left running, or until Abort. Its error is nil or a *StopError. Run installs no
// signal handlers.
func (m *Manager) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(m.stopping, stop)()

	var all, watcher sync.WaitGroup
	for _, p := range m.processes {
		all.Go(func() { p.run(running) })
	}
	if m.opts.GiveUpAfter > 0 {
		watcher.Go(func() { m.watchReadiness(running) })
	}
	all.Wait()
	asked := running.Err() != nil
	stop()
	watcher.Wait()
	m.drivers.close(m.opts.Logger)
	return m.verdict(asked)
}

// Abort makes the stop hard: handlers are cancelled and Run returns after one
// try to release what they held. It may be called more than once.
func (m *Manager) Abort() {
	m.stop()
	for _, p := range m.processes {
		p.abort()
	}
}

// Pause stops a process from fetching; running jobs finish. It reports whether
// the manager hosts a process of that name. A paused process is ready.
func (m *Manager) Pause(name string) bool { return m.setPaused(name, true) }

// Resume undoes Pause.
func (m *Manager) Resume(name string) bool { return m.setPaused(name, false) }

func (m *Manager) setPaused(name string, paused bool) bool {
	p := m.process(name)
	if p != nil {
		p.setPaused(paused)
	}
	return p != nil
}

// Status is the state of every hosted process, in the order of New's specs.
func (m *Manager) Status() []ProcessStatus {
	status := make([]ProcessStatus, len(m.processes))
	for i, p := range m.processes {
		status[i] = p.status()
	}
	return status
}

// Inspect asks the broker what a process's queue holds. errors.ErrUnsupported
// means that its driver can't tell.
func (m *Manager) Inspect(ctx context.Context, name string) (core.QueueStats, error) {
	p := m.process(name)
	if p == nil {
		return core.QueueStats{}, setupError("there is no process named %s", name)
	}
	driver, err := m.drivers.open(p.spec.Transport)
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

func (m *Manager) process(name string) *process {
	for _, p := range m.processes {
		if p.spec.Name == name {
			return p
		}
	}
	return nil
}

// watchReadiness ends Run when a process has not been ready for GiveUpAfter. Its
// engines are stopped hard, since nothing gets through to their broker; the
// others drain.
func (m *Manager) watchReadiness(running context.Context) {
	limit := m.opts.GiveUpAfter
	tick := time.NewTicker(min(limit/4+1, 500*time.Millisecond))
	defer tick.Stop()
	lastReady := make([]time.Time, len(m.processes))
	for i := range lastReady {
		lastReady[i] = time.Now()
	}
	for {
		select {
		case <-running.Done():
			return
		case <-tick.C:
		}
		for i, p := range m.processes {
			s := p.status()
			if s.Ready || s.State == StateFailed || s.State == StateStopped {
				lastReady[i] = time.Now()
			} else if time.Since(lastReady[i]) >= limit {
				p.giveUp(&GiveUpError{After: limit, Reason: s.Reason})
				m.stop()
				return
			}
		}
	}
}
