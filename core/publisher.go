package core

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Publisher publishes jobs to one queue, on any transport. It is safe for
// concurrent use.
type Publisher struct {
	port      PublishPort
	event     Event // what every EventPublished carries
	format    Format
	listeners []Listener
}

// PublisherOption changes a publisher at its making.
type PublisherOption func(*Publisher)

// WithListeners has EventPublished sent to listeners, as from the given process.
func WithListeners(process, transport, queue string, listeners ...Listener) PublisherOption {
	return func(p *Publisher) {
		p.event = Event{Kind: EventPublished, Process: process, Transport: transport, Queue: queue}
		p.listeners = append(p.listeners, listeners...)
	}
}

// WithFormat has jobs stored in the form of the queue's process; default FormatJob.
func WithFormat(f Format) PublisherOption {
	return func(p *Publisher) { p.format = f }
}

// NewPublisher makes a publisher over a driver's port.
func NewPublisher(port PublishPort, options ...PublisherOption) *Publisher {
	p := &Publisher{port: port}
	for _, option := range options {
		option(p)
	}
	return p
}

// Outgoing is one job to publish.
type Outgoing struct {
	Job   *Job
	Delay time.Duration // 0 or less = now
}

// Publish stores one job now and waits for the broker's confirmation. What the
// job lacks is filled in, in the job itself, so that the caller knows its id: ID,
// and for a job that was made by hand (Attempt 0) V, Attempt and CreatedAt.
// Nothing else changes, and nothing at all when the job is refused: it needs a
// Type and a payload that is a JSON object or list. An error may mean that the
// broker's word was lost, so a job with an error may have been stored.
func (p *Publisher) Publish(ctx context.Context, job *Job) error {
	return p.PublishAfter(ctx, job, 0)
}

// PublishAfter is Publish for a job that is due after delay.
func (p *Publisher) PublishAfter(ctx context.Context, job *Job, delay time.Duration) error {
	if errs := p.PublishBatch(ctx, []Outgoing{{job, delay}}); errs != nil {
		return errs[0]
	}
	return nil
}

// PublishBatch is Publish for many jobs: nil when all are confirmed, else an
// error (or nil) for each. When one is refused none is sent: it has its own
// error and the others have ErrNotSent.
func (p *Publisher) PublishBatch(ctx context.Context, jobs []Outgoing) []error {
	if len(jobs) == 0 {
		return nil
	}
	if errs := checkAll(jobs); errs != nil {
		return errs
	}
	msgs := make([]Message, len(jobs))
	for i, out := range jobs {
		out.Job.fill()
		msgs[i] = p.message(out)
	}
	errs := p.port.Publish(ctx, msgs)
	p.notify(msgs, errs)
	return errs
}

func checkAll(jobs []Outgoing) []error {
	var errs []error
	for i, out := range jobs {
		err := errors.New("job is nil")
		if out.Job != nil {
			err = out.Job.check()
		}
		if err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(jobs))
			for k := range errs {
				errs[k] = ErrNotSent
			}
		}
		errs[i] = fmt.Errorf("publish: %w", err)
	}
	return errs
}

// fill gives a job what it lacks. Attempt is never 0 in a job that Decode or
// NewJob made, so 0 tells one made by hand, whose other zeros mean nothing.
func (j *Job) fill() {
	if j.ID == "" {
		j.ID = NewID()
	}
	if j.Attempt > 0 {
		return
	}
	j.Attempt = 1
	if j.V == 0 {
		j.V = 1
	}
	if j.CreatedAt == 0 {
		j.CreatedAt = time.Now().Unix()
	}
}

func (p *Publisher) message(out Outgoing) Message {
	j := out.Job
	priority, _ := j.Meta.Priority() // normal when unset
	return Message{
		Body:     j.As(p.format).Append(nil),
		ID:       j.ID,
		Type:     j.Type,
		Key:      j.Meta.PartitionKey(),
		Priority: priority,
		Delay:    max(out.Delay, 0),
	}
}

func (p *Publisher) notify(msgs []Message, errs []error) {
	stored := len(msgs)
	for _, err := range errs {
		if err != nil {
			stored--
		}
	}
	if stored == 0 {
		return
	}
	event := p.event
	event.Time, event.N = time.Now(), stored
	for _, listen := range p.listeners {
		callListener(listen, &event)
	}
}

// callListener keeps a listener's panic from harming what it listens to.
func callListener(listen Listener, e *Event) {
	defer func() { _ = recover() }()
	listen(e)
}

// Close frees the port.
func (p *Publisher) Close(ctx context.Context) error { return p.port.Close(ctx) }
