package processes

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"

	"github.com/goconsumer/consumer/core"
)

// ErrStopping is returned to whoever wants a change of a host that stops or has not
// started.
var ErrStopping = errors.New("the host is stopping or does not run yet")

// Start runs a process that was stopped or has failed; one that runs goes on.
func (m *Manager) Start(name string) error { return m.steer(name, (*Manager).startSlot) }

// Stop stops a process softly and blocks until it has ended. The host goes on,
// also without any process left; Start undoes it.
func (m *Manager) Stop(name string) error { return m.steer(name, (*Manager).stopSlot) }

// Restart stops a process softly and starts it again. It blocks until the new one
// is starting.
func (m *Manager) Restart(name string) error {
	return m.steer(name, func(m *Manager, s *slot) error {
		return errors.Join(m.stopSlot(s), m.startSlot(s))
	})
}

// steer changes one process; changes of one process wait for each other, and Run
// waits for all.
func (m *Manager) steer(name string, change func(*Manager, *slot) error) error {
	m.mu.Lock()
	i := slices.IndexFunc(m.slots, func(s *slot) bool { return s.process.spec.Name == name })
	if i < 0 {
		m.mu.Unlock()
		return &UnknownProcessError{name}
	}
	s := m.slots[i]
	if err := m.begin(); err != nil {
		m.mu.Unlock()
		return err
	}
	m.mu.Unlock()
	defer m.done()
	s.steering.Lock()
	defer s.steering.Unlock()
	return change(m, s)
}

// begin counts a change as live, unless the host stops. mu is held.
func (m *Manager) begin() error {
	if m.running == nil || m.running.Err() != nil || m.over {
		return ErrStopping
	}
	m.live++
	return nil
}

// stopSlot ends the slot's process. steering is held.
func (m *Manager) stopSlot(s *slot) error {
	m.mu.Lock()
	p := s.process
	s.held = true
	m.mu.Unlock()
	p.stop()
	<-p.ended
	return nil
}

// startSlot puts a new process in the place of one that has ended. steering is
// held.
func (m *Manager) startSlot(s *slot) error {
	m.mu.Lock()
	old := s.process
	setup := m.setup
	m.mu.Unlock()
	if !old.hasEnded() {
		return nil
	}
	next, err := newProcess(m, setup, old.spec)
	if err != nil {
		return err
	}
	return m.replace(s, next)
}

// replace launches next in the place of a process that has ended. steering is held.
func (m *Manager) replace(s *slot, next *process) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := s.process
	switch {
	case m.running.Err() != nil || m.over:
		return ErrStopping
	case s.gone:
		return &UnknownProcessError{old.spec.Name}
	}
	m.leftovers = append(m.leftovers, old.unsettledErrors()...)
	next.inherit(old)
	s.process, s.held = next, false
	m.launch(next)
	return nil
}

// Pause stops a process from fetching; running jobs finish. A paused process is
// ready. Where the broker keeps it, the whole queue is paused, for every host;
// else only this host's process is.
func (m *Manager) Pause(ctx context.Context, name string) error { return m.setPaused(ctx, name, true) }

// Resume undoes Pause.
func (m *Manager) Resume(ctx context.Context, name string) error {
	return m.setPaused(ctx, name, false)
}

func (m *Manager) setPaused(ctx context.Context, name string, paused bool) error {
	p := m.process(name)
	if p == nil {
		return &UnknownProcessError{name}
	}
	shared, err := p.pauseQueue(ctx, paused)
	if err == nil && !shared {
		p.setPaused(paused)
	}
	return err
}

// pauseQueue pauses the queue at its broker; shared is false where that keeps no such
// thing.
func (p *process) pauseQueue(ctx context.Context, paused bool) (shared bool, err error) {
	driver, err := p.host.drivers.open(p.endpoint)
	if err != nil {
		return false, err
	}
	pauser, ok := driver.(core.QueuePauser)
	if !ok {
		return false, nil
	}
	return true, pauser.PauseQueue(ctx, p.binding(0), paused)
}

// pauseReplicas pauses only what this OS process runs, whatever the broker can.
func (m *Manager) pauseReplicas(paused bool) {
	for _, p := range m.current() {
		p.setPaused(paused)
	}
}

// Setup is what Reload can change.
type Setup struct {
	Specs     []Spec
	Endpoints []Endpoint
	Registry  *core.Registry
	Child     ChildFunc
}

// Changes names what a Reload did.
type Changes struct {
	Started   []string
	Restarted []string
	Stopped   []string
}

// Reload goes over to a new setup. Processes whose Spec and endpoints are equal are
// not touched, changed ones are restarted, those that are gone are stopped, new ones
// started; what Stop stopped stays so. With a fault (a *core.SetupError, all
// joined) nothing changes. It blocks until what had to stop has stopped.
func (m *Manager) Reload(setup Setup) (Changes, error) {
	m.reloading.Lock()
	defer m.reloading.Unlock()
	if setup.Registry == nil {
		setup.Registry = core.NewRegistry()
	}
	made, err := m.newProcesses(setup)
	if err != nil {
		return Changes{}, err
	}

	m.mu.Lock()
	if err := m.begin(); err != nil {
		m.mu.Unlock()
		return Changes{}, err
	}
	defer m.done()
	m.setup = setup
	var changes Changes
	var work sync.WaitGroup
	before := slices.Clone(m.slots)
	slots := make([]*slot, len(made))
	for i, next := range made {
		name := next.spec.Name
		at := slices.IndexFunc(before, func(s *slot) bool { return s.process.spec.Name == name })
		if at < 0 {
			slots[i] = &slot{process: next}
			changes.Started = append(changes.Started, name)
			m.launch(next)
			continue
		}
		s := before[at]
		slots[i], before = s, slices.Delete(before, at, at+1)
		if !s.process.equal(next) {
			changes.Restarted = append(changes.Restarted, name)
			work.Go(func() { m.exchange(s, next) })
		}
	}
	for _, s := range before { // what is not in the setup any more
		s.gone = true
		changes.Stopped = append(changes.Stopped, s.process.spec.Name)
		work.Go(func() { m.retire(s) })
	}
	m.slots = slices.Concat(slots, before) // shown until they have ended
	m.mu.Unlock()
	work.Wait()

	m.mu.Lock()
	m.slots = slots
	m.mu.Unlock()
	m.drivers.keep(m.usedEndpoints(), m.opts.Logger)
	return changes, nil
}

// exchange restarts a slot with another process.
func (m *Manager) exchange(s *slot, next *process) {
	s.steering.Lock()
	defer s.steering.Unlock()
	m.mu.Lock()
	held := s.held
	m.mu.Unlock()
	_ = m.stopSlot(s) // it never fails
	if held {
		next.neverRan()
		m.mu.Lock()
		next.inherit(s.process)
		s.process = next
		m.mu.Unlock()
		return
	}
	_ = m.replace(s, next) // the host stops: nothing is to be started
}

// retire ends a slot's process for good.
func (m *Manager) retire(s *slot) {
	s.steering.Lock()
	defer s.steering.Unlock()
	_ = m.stopSlot(s) // it never fails
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leftovers = append(m.leftovers, s.process.unsettledErrors()...)
}

func (m *Manager) usedEndpoints() map[Endpoint]bool {
	used := map[Endpoint]bool{}
	for _, p := range m.current() {
		used[p.endpoint] = true
		if p.deadEndpoint != (Endpoint{}) {
			used[p.deadEndpoint] = true
		}
	}
	return used
}

// equal says whether a process of the new setup would do the same.
func (p *process) equal(next *process) bool {
	return reflect.DeepEqual(p.spec, next.spec) && p.endpoint == next.endpoint && p.deadEndpoint == next.deadEndpoint
}
