package processes

import (
	"context"
	"errors"
	"fmt"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
)

// Inspector looks at the queues of processes and changes them, from any program: it
// is in Go what the command line shows. It runs no jobs. It is safe for concurrent
// use.
type Inspector struct{ m *Manager }

// NewInspector makes an Inspector of processes that run elsewhere; Options needs
// Endpoints, Drivers and DeadSink only. It connects when it is first used. Faults are
// those of New.
func NewInspector(specs []Spec, opts Options) (*Inspector, error) {
	var plain []Spec
	for _, s := range specs {
		// What only matters to whoever runs them may be missing here.
		s.Types, s.Isolation, s.MemoryLimit, s.Recycle = nil, IsolationGoroutine, 0, Recycle{}
		plain = append(plain, s)
	}
	m, err := New(plain, opts)
	if err != nil {
		return nil, err
	}
	return &Inspector{m}, nil
}

// Inspector shares the host's connections; it is of no use once Run has ended.
func (m *Manager) Inspector() *Inspector { return &Inspector{m} }

// Processes are the specs, defaults filled.
func (i *Inspector) Processes() []Spec {
	var specs []Spec
	for _, p := range i.m.current() {
		specs = append(specs, p.spec)
	}
	return specs
}

// Stats is what the broker tells about a process's queue.
func (i *Inspector) Stats(ctx context.Context, process string) (core.QueueStats, error) {
	return i.m.Inspect(ctx, process)
}

// Pause pauses a process's queue where its broker keeps that, for every host;
// errors.ErrUnsupported elsewhere.
func (i *Inspector) Pause(ctx context.Context, process string) error {
	return i.setPaused(ctx, process, true)
}

// Resume undoes Pause.
func (i *Inspector) Resume(ctx context.Context, process string) error {
	return i.setPaused(ctx, process, false)
}

func (i *Inspector) setPaused(ctx context.Context, process string, paused bool) error {
	p, err := i.find(process)
	if err != nil {
		return err
	}
	shared, err := p.pauseQueue(ctx, paused)
	if err == nil && !shared {
		err = fmt.Errorf("pause at the broker of %s: %w", p.spec.Transport, errors.ErrUnsupported)
	}
	return err
}

// DeadLetters opens the place where a process keeps its dead letters. Use
// deadletter.Select to look at some.
func (i *Inspector) DeadLetters(ctx context.Context, process string) (deadletter.Store, error) {
	p, err := i.find(process)
	if err != nil {
		return nil, err
	}
	if p.spec.DeadLetter.Driver == DeadLogOnly {
		return nil, fmt.Errorf("process %s keeps no dead letters (log_only): %w", process, errors.ErrUnsupported)
	}
	place := p.endpoint
	if p.deadEndpoint != (Endpoint{}) {
		place = p.deadEndpoint
	}
	driver, err := i.m.drivers.open(place)
	if err != nil {
		return nil, err
	}
	opener, ok := driver.(deadletter.Opener)
	if !ok {
		return nil, fmt.Errorf("read the dead letters of transport %s: %w", place.Name, errors.ErrUnsupported)
	}
	return opener.OpenDeadLetters(ctx, p.binding(0))
}

// Replay publishes dead letters of one process to the queue of another, or the same
// one, and removes them when they are stored there; see deadletter.Replay.
func (i *Inspector) Replay(ctx context.Context, from, to string, f deadletter.Filter, o deadletter.ReplayOptions) (deadletter.Report, error) {
	store, err := i.DeadLetters(ctx, from)
	if err != nil {
		return deadletter.Report{}, err
	}
	p, err := i.find(to)
	if err != nil {
		return deadletter.Report{}, err
	}
	driver, err := i.m.drivers.open(p.endpoint)
	if err != nil {
		return deadletter.Report{}, err
	}
	port, err := driver.OpenPublisher(ctx, p.binding(0))
	if err != nil {
		return deadletter.Report{}, fmt.Errorf("open publisher: %w", err)
	}
	defer func() { _ = port.Close(context.WithoutCancel(ctx)) }() // every publish was confirmed or has its error
	return deadletter.Replay(ctx, store, port, f, o)
}

// Close frees the connections of an Inspector that NewInspector made.
func (i *Inspector) Close() { i.m.drivers.close(i.m.opts.Logger) }

func (i *Inspector) find(name string) (*process, error) {
	p := i.m.process(name)
	if p == nil {
		return nil, &UnknownProcessError{name}
	}
	return p, nil
}
