package redis

import (
	"context"
	"fmt"
	"sync"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/internal/fault"
)

// Bounds of one publishing command, and of one body (the server's own limit).
const (
	maxPublish      = 500
	maxPublishBytes = 8 << 20
	maxBody         = 512 << 20
)

// port publishes to one queue.
type port struct {
	driver *Driver
	keys   keys

	mu     sync.RWMutex // held for reading while publishing
	closed bool         // guarded by mu
}

var _ core.PublishPort = (*port)(nil)

// OpenPublisher needs no connection: the first Publish makes it.
func (d *Driver) OpenPublisher(_ context.Context, b core.Binding) (core.PublishPort, error) {
	o, err := d.optionsOf(b)
	if err != nil {
		return nil, err
	}
	return &port{driver: d, keys: newKeys(b, o)}, nil
}

// Publish stores msgs in their order: those that are due now with one command a
// list, delayed ones with one script call. The reply is the confirmation.
func (p *port) Publish(ctx context.Context, msgs []core.Message) []error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	errs := make([]error, len(msgs))
	now := make([][]int, len(p.keys.lists)) // of each ready list
	var later []int
	for i, m := range msgs {
		switch {
		case p.closed:
			errs[i] = core.ErrClosed
		case len(m.Body) > maxBody:
			errs[i] = core.ErrTooLarge
		case m.Delay > 0:
			later = append(later, i)
		default:
			list := p.keys.place(m.Priority) - 1
			now[list] = append(now[list], i)
		}
	}
	for list, places := range now {
		p.chunks(msgs, places, errs, func(part []int) error {
			args := make([]any, len(part))
			for i, at := range part {
				args[i] = p.keys.dressed(msgs[at].Body, 0)
			}
			return p.driver.client.LPush(ctx, p.keys.lists[list], args...).Err()
		})
	}
	p.chunks(msgs, later, errs, func(part []int) error {
		args := make([]any, 0, 1+2*len(part))
		args = append(args, p.keys.unit)
		for _, at := range part {
			args = append(args, p.keys.dressed(msgs[at].Body, 0), micros(msgs[at].Delay))
		}
		return p.driver.scripts.schedule.Run(ctx, p.driver.client, []string{p.keys.delay, p.keys.bell}, args...).Err()
	})
	for _, err := range errs {
		if err != nil {
			return errs
		}
	}
	return nil
}

// chunks stores the messages at these places in bounded steps. After a failure
// the rest is not tried: its order would be broken.
func (p *port) chunks(msgs []core.Message, places []int, errs []error, store func(part []int) error) {
	var failed error
	for len(places) > 0 {
		n, bytes := 0, 0
		for n < len(places) && n < maxPublish && (n == 0 || bytes+len(msgs[places[n]].Body) <= maxPublishBytes) {
			bytes += len(msgs[places[n]].Body)
			n++
		}
		if failed == nil {
			failed = fault.At(fault.RedisPublishAsked)
		}
		if failed == nil {
			failed = store(places[:n])
		}
		if failed == nil {
			failed = fault.At(fault.RedisPublished)
		}
		if failed != nil {
			err := p.driver.failure(fmt.Sprintf("publish to %s", p.keys.ready), failed)
			for _, at := range places[:n] {
				errs[at] = err
			}
		}
		places = places[n:]
	}
}

// reachedBy says whether a script of d can write to the port's queue: it is in the
// same database.
func (p *port) reachedBy(d *Driver) bool {
	ours, theirs := p.driver.template, d.template
	return ours.Network == theirs.Network && ours.Addr == theirs.Addr && ours.DB == theirs.DB
}

// Close waits for what is being published.
func (p *port) Close(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}
