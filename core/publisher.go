package core

import (
	"context"
	"time"
)

// Publisher publishes jobs to one queue, on any transport. It is safe for
// concurrent use.
type Publisher struct{ port PublishPort }

// NewPublisher makes a publisher over a driver's port.
func NewPublisher(port PublishPort) *Publisher { return &Publisher{port: port} }

// Outgoing is one job to publish.
type Outgoing struct {
	Job   *Job
	Delay time.Duration
}

// Publish stores one job now and waits for the broker's confirmation.
func (p *Publisher) Publish(ctx context.Context, job *Job) error { return nil }

// PublishAfter stores one job that is due after delay.
func (p *Publisher) PublishAfter(ctx context.Context, job *Job, delay time.Duration) error {
	return nil
}

// PublishBatch stores many: nil when all are confirmed, else an error (or nil)
// for each.
func (p *Publisher) PublishBatch(ctx context.Context, jobs []Outgoing) []error { return nil }

// Close frees the port.
func (p *Publisher) Close(ctx context.Context) error { return p.port.Close(ctx) }

// PublisherFrom returns the publisher of the process that runs the handler (nil
// outside a handler).
func PublisherFrom(ctx context.Context) *Publisher { return nil }
