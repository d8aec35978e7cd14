package processes

import (
	"context"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
)

// engineConfig binds a replica's engine to its spec.
func (p *process) engineConfig(r *replica, driver core.Driver, publisher *core.Publisher, sink core.DeadSink, watch core.Listener) core.EngineConfig {
	return core.EngineConfig{
		Transport: p.spec.Transport,
		Driver:    driver,
		Binding:   p.binding(r.index),
		Handlers:  p.view,
		Publisher: publisher,

		Retry:      p.spec.Retry,
		RetryTypes: p.spec.RetryTypes,
		Timeout:    p.spec.HandlerTimeout,

		Grace:             p.spec.Grace,
		ShutdownTimeout:   p.spec.ShutdownTimeout,
		MaxCrashes:        p.spec.MaxCrashes,
		MaxDefers:         p.spec.MaxDefers,
		MaxStuck:          p.spec.MaxStuck,
		MaxSize:           p.spec.MaxSize,
		DefaultJobType:    p.spec.DefaultJobType,
		Format:            p.spec.Format,
		RetryUnregistered: p.spec.RetryUnregistered,

		DeadSink:  sink,
		Gate:      p.host.gate,
		Listeners: append([]core.Listener{watch}, p.host.opts.Listeners...),
		Logger:    p.host.opts.Logger.With("transport", p.spec.Transport, "replica", r.index), // it adds the process
	}
}

// deadSink is where dead letters go when that is not the transport's own place
// (nil).
func (p *process) deadSink() (core.DeadSink, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sink == nil {
		sink, err := p.makeDeadSink()
		if err != nil {
			return nil, err
		}
		p.sink = sink
	}
	return p.sink, nil
}

func (p *process) makeDeadSink() (core.DeadSink, error) {
	dead := p.spec.DeadLetter
	switch {
	case dead.Driver == DeadLogOnly:
		return deadletter.NewLogOnly(p.host.opts.Logger, p.spec.Name), nil
	case p.deadEndpoint == Endpoint{}:
		return nil, nil
	case p.host.opts.DeadSink == nil:
		return nil, setupError("this program cannot keep dead letters on another transport; set dead_letter.driver: auto")
	}
	driver, err := p.host.drivers.open(p.deadEndpoint)
	if err != nil {
		return nil, err
	}
	return p.host.opts.DeadSink(p.deadEndpoint, driver, p.spec)
}

// countDead is how many dead letters the process has, nil when their place does
// not tell; own is the number in the transport's own place.
func (p *process) countDead(ctx context.Context, own *int64) (*int64, error) {
	sink, err := p.deadSink()
	if err != nil || sink == nil {
		return own, err
	}
	place, ok := sink.(interface {
		Count(ctx context.Context) (int64, error)
	})
	if !ok {
		return nil, nil
	}
	n, err := place.Count(ctx)
	if err != nil {
		return nil, err
	}
	return &n, nil
}
