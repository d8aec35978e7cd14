package drivertest

import (
	"context"

	"github.com/goconsumer/consumer/core"
	"slices"
	"sync"
	"time"
)

// broken is a driver with one fault, made from the broker in memory, and the
// case that must find it.
type broken struct {
	fault  string
	caught string // the name of the case
	shape  Shape  // default Republishing
	source func(s *brokenSource)
	port   func(p *brokenPort)
}

// brokenSource is a source of the memory broker with some methods replaced.
type brokenSource struct {
	core.Source
	core.Isolator
	m *Memory
	d *MemoryDriver
	p core.PublishPort

	receive func(ctx context.Context, limit int) ([]*core.Delivery, error)
	settle  func(batch []core.Settlement, done func(int, error))
	isolate func(ctx context.Context, d *core.Delivery, charged []byte) (*core.Delivery, error)
	close   func(ctx context.Context) error
}

func (s *brokenSource) Receive(ctx context.Context, limit int) ([]*core.Delivery, error) {
	return s.receive(ctx, limit)
}

func (s *brokenSource) Settle(batch []core.Settlement, done func(int, error)) { s.settle(batch, done) }

func (s *brokenSource) Isolate(ctx context.Context, d *core.Delivery, charged []byte) (*core.Delivery, error) {
	return s.isolate(ctx, d, charged)
}

func (s *brokenSource) Close(ctx context.Context) error { return s.close(ctx) }

// each lets settle change one item after the other. A nil answer function means
// that the source answers for it.
func (s *brokenSource) each(settle func(item core.Settlement) (core.Settlement, func(error) error)) {
	s.settle = func(batch []core.Settlement, done func(int, error)) {
		for i, item := range batch {
			changed, answer := settle(item)
			s.Source.Settle([]core.Settlement{changed}, func(_ int, err error) {
				if answer != nil {
					err = answer(err)
				}
				done(i, err)
			})
		}
	}
}

// store publishes past every fault.
func (s *brokenSource) store(body []byte, delay time.Duration) {
	s.p.Publish(context.Background(), []core.Message{{Body: body, Delay: delay}})
}

// vanished says whether the process was killed.
func (s *brokenSource) vanished() bool {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return s.d.gone
}

type brokenPort struct {
	core.PublishPort
	publish func(ctx context.Context, msgs []core.Message) []error
}

func (p *brokenPort) Publish(ctx context.Context, msgs []core.Message) []error {
	return p.publish(ctx, msgs)
}

// brokenDriver opens what is broken.
type brokenDriver struct {
	*MemoryDriver
	b broken
}

func (d *brokenDriver) OpenSource(ctx context.Context, b core.Binding, n core.Notices) (core.Source, error) {
	inner, err := d.MemoryDriver.OpenSource(ctx, b, n)
	if err != nil || d.b.source == nil {
		return inner, err
	}
	s := &brokenSource{
		Source: inner, Isolator: inner.(core.Isolator), m: d.m, d: d.MemoryDriver,
		p: &port{d: &MemoryDriver{m: d.m}, binding: b}, receive: inner.Receive, settle: inner.Settle, close: inner.Close,
	}
	s.isolate = s.Isolator.Isolate
	d.b.source(s)
	return s, nil
}

func (d *brokenDriver) OpenPublisher(ctx context.Context, b core.Binding) (core.PublishPort, error) {
	inner, err := d.MemoryDriver.OpenPublisher(ctx, b)
	if err != nil || d.b.port == nil {
		return inner, err
	}
	p := &brokenPort{PublishPort: inner, publish: inner.Publish}
	d.b.port(p)
	return p, nil
}

// received lets a fault look at, change or drop every delivery.
func received(look func(s *brokenSource, d *core.Delivery) (keep bool)) func(*brokenSource) {
	return func(s *brokenSource) {
		s.receive = func(ctx context.Context, limit int) ([]*core.Delivery, error) {
			ds, err := s.Source.Receive(ctx, limit)
			return slices.DeleteFunc(ds, func(d *core.Delivery) bool { return !look(s, d) }), err
		}
	}
}

// settled lets a fault change every settlement.
func settled(change func(s *brokenSource, item core.Settlement) (core.Settlement, func(error) error)) func(*brokenSource) {
	return func(s *brokenSource) {
		s.each(func(item core.Settlement) (core.Settlement, func(error) error) { return change(s, item) })
	}
}

func succeedNow(s *brokenSource, d *core.Delivery) {
	s.Source.Settle([]core.Settlement{{D: d, Verdict: core.VerdictDone}}, func(int, error) {})
}

// twoStepPromotion takes each message off the queue when it first sees it and
// stores it again a little later, as a promoter without a script would.
func twoStepPromotion(s *brokenSource) {
	promoted := map[string]bool{}
	var mu sync.Mutex
	received(func(s *brokenSource, d *core.Delivery) bool {
		mu.Lock()
		defer mu.Unlock()
		if promoted[string(d.Body)] {
			return true
		}
		promoted[string(d.Body)] = true
		succeedNow(s, d)
		time.AfterFunc(5*time.Millisecond, func() {
			if !s.vanished() {
				s.store(d.Body, 0)
			}
		})
		return false
	})(s)
}

// hoarding takes everything at once and gives it out piece by piece.
func hoarding(s *brokenSource) {
	var hoard []*core.Delivery
	s.receive = func(ctx context.Context, limit int) ([]*core.Delivery, error) {
		if len(hoard) == 0 {
			ds, err := s.Source.Receive(ctx, 1000)
			if err != nil {
				return nil, err
			}
			hoard = ds
		}
		n := min(limit, len(hoard))
		out := hoard[:n]
		hoard = hoard[n:]
		return out, nil
	}
}
