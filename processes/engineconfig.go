package processes

import (
	"context"
	"log/slog"

	"github.com/goconsumer/consumer/core"
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
		RetryUnregistered: p.spec.RetryUnregistered,

		DeadSink:  sink,
		Gate:      p.host.gate,
		Listeners: append([]core.Listener{watch}, p.host.opts.Listeners...),
		Logger:    r.logger,
	}
}

// deadSink is where dead letters go when that is not the transport's own place
// (nil).
func (p *process) deadSink() (core.DeadSink, error) {
	dead := p.spec.DeadLetter
	switch {
	case dead.Driver == DeadLogOnly:
		return logOnly{p.logger}, nil
	case dead.Driver != DeadRedisList || dead.Transport == "" || dead.Transport == p.spec.Transport:
		return nil, nil
	case p.host.opts.DeadSink == nil:
		return nil, setupError("this program cannot keep dead letters on another transport; set dead_letter.driver: auto")
	}
	driver, err := p.host.drivers.open(dead.Transport)
	if err != nil {
		return nil, err
	}
	return p.host.opts.DeadSink(p.host.drivers.endpoints[dead.Transport], driver, p.spec)
}

// logOnly is the dead-letter place that keeps nothing: the one stated exception
// to "nothing is lost".
type logOnly struct{ logger *slog.Logger }

// Store names every dead letter in the log.
func (l logOnly) Store(_ context.Context, records []*core.DeadRecord) []error {
	for _, r := range records {
		id, jobType := "", ""
		if r.Job != nil {
			id, jobType = r.Job.ID, r.Job.Type
		}
		l.logger.Error("dead_letter.dropped", "jobId", id, "jobType", jobType, "reason", r.Reason)
	}
	return nil
}
