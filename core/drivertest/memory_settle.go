package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Settle implements core.Source. Items that no fault stalls are settled before
// it returns.
func (s *source) Settle(batch []core.Settlement, done func(i int, err error)) {
	for i := range batch {
		item := batch[i]
		f := s.m.match(OpSettle, item.D.Body)
		if !f.stalls() {
			done(i, s.settle(f, item))
			continue
		}
		s.background.Go(func() {
			if err := f.wait(context.Background(), s.closing); err != nil {
				done(i, err)
				return
			}
			done(i, s.settle(f, item))
		})
	}
}

func (s *source) settle(f *fault, item core.Settlement) error {
	if err := f.before(); err != nil {
		return err
	}
	s.m.mu.Lock()
	dropped, err := s.settleLocked(item)
	s.m.mu.Unlock()
	if len(dropped) > 0 {
		s.notices.Event(&core.Event{Kind: core.EventDeadOverflow, Time: time.Now(), Queue: s.q.name, N: len(dropped), IDs: dropped})
	}
	if err == nil {
		err = f.after()
	}
	return err
}

func (s *source) settleLocked(item core.Settlement) (dropped []string, err error) {
	if s.d.gone {
		return nil, errVanished
	}
	if s.m.down {
		return nil, errDown
	}
	s.q.advance()
	c := item.D.Native.(*claim)
	if c.settled {
		return nil, nil // it was carried out, only the reply did not get through
	}
	if c.msg.claim != c {
		return nil, core.ErrStale
	}
	defer s.q.touch()
	switch item.Verdict {
	case core.VerdictDone:
		s.q.finish(c)
	case core.VerdictRetry, core.VerdictDefer:
		s.later(c, item)
	case core.VerdictDead:
		dropped, err = s.bury(c, item.Dead)
	case core.VerdictRelease:
		if item.Next != nil {
			c.msg.body, c.msg.charged = bytes.Clone(item.Next), false
		}
		c.settled = true
		s.q.release(c)
	default:
		err = fmt.Errorf("unknown verdict %d", item.Verdict)
	}
	return dropped, err
}

// later stores the next run and removes this one, in one step.
func (s *source) later(c *claim, item core.Settlement) {
	msg := c.msg
	s.q.finish(c)
	if s.m.shape.InPlace {
		if item.Verdict == core.VerdictRetry {
			msg.attempt++
		}
		msg.found = 0
		if item.Next != nil { // for a broker that cannot edit: a new message for the old one
			msg.body, msg.charged = bytes.Clone(item.Next), false
		}
		s.q.hold(msg, item.Delay)
		return
	}
	s.q.add(&message{body: bytes.Clone(item.Next), headers: msg.headers, key: msg.key, priority: msg.priority}, item.Delay)
}

// bury stores a dead letter and removes the original, in one step.
func (s *source) bury(c *claim, record *core.DeadRecord) (dropped []string, err error) {
	policy := s.binding.DeadLetters
	for full := policy.MaxLen > 0; full && int64(len(s.q.dead)) >= policy.MaxLen; {
		if policy.OnFull != core.OnFullDropOldest {
			return nil, core.ErrDeadLettersFull
		}
		if oldest := s.q.dead[0]; oldest.Job != nil {
			dropped = append(dropped, oldest.Job.ID)
		}
		s.q.dead = s.q.dead[1:]
	}
	s.q.finish(c)
	s.q.dead = append(s.q.dead, *record)
	return dropped, nil
}

// Isolate implements core.Isolator. Where a message can be replaced in its
// place the charged job is what this delivery now is; else it comes back as a
// delivery of its own.
func (s *source) Isolate(ctx context.Context, d *core.Delivery, charged []byte) (*core.Delivery, error) {
	f := s.m.match(OpIsolate, d.Body)
	if err := f.wait(ctx, s.closing); err != nil {
		return nil, err
	}
	if err := f.before(); err != nil {
		return nil, err
	}
	next, err := s.isolate(d, charged)
	if err == nil {
		err = f.after()
	}
	if err != nil {
		return nil, err
	}
	return next, nil
}

func (s *source) isolate(d *core.Delivery, charged []byte) (*core.Delivery, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.d.gone {
		return nil, errVanished
	}
	if s.m.down {
		return nil, errDown
	}
	s.q.advance()
	c := d.Native.(*claim)
	if c.settled {
		return nil, nil // a repeat: the charged job is on its way
	}
	if c.msg.claim != c {
		return nil, core.ErrStale
	}
	msg := c.msg
	if !s.m.shape.InPlace && s.m.shape.Partitions == 0 {
		msg.body = bytes.Clone(charged)
		return s.delivery(c), nil
	}
	s.q.finish(c)
	s.q.add(&message{
		body: bytes.Clone(charged), headers: msg.headers, key: msg.key, priority: msg.priority,
		charged: true, attempt: msg.attempt,
	}, 0)
	return nil, nil
}

// port publishes into one queue.
type port struct {
	d       *MemoryDriver
	binding core.Binding
}

var _ core.PublishPort = (*port)(nil)

// Publish implements core.PublishPort.
func (p *port) Publish(ctx context.Context, msgs []core.Message) []error {
	errs := make([]error, len(msgs))
	failed := false
	for i := range msgs {
		errs[i] = p.publish(ctx, &msgs[i])
		failed = failed || errs[i] != nil
	}
	if !failed {
		return nil
	}
	return errs
}

func (p *port) publish(ctx context.Context, msg *core.Message) error {
	m := p.d.m
	f := m.match(OpPublish, msg.Body)
	if err := f.wait(ctx, nil); err != nil {
		return err
	}
	if err := f.before(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case p.d.gone:
		return errVanished
	case m.down:
		return errDown
	case m.shape.MaxSize > 0 && len(msg.Body) > m.shape.MaxSize:
		return core.ErrTooLarge
	}
	stored := &message{body: bytes.Clone(msg.Body), key: msg.Key}
	if p.binding.Priority == core.PriorityLevels {
		stored.priority = msg.Priority
	}
	m.queue(p.binding.Queue).add(stored, msg.Delay)
	return f.after()
}

// Close implements core.PublishPort.
func (p *port) Close(context.Context) error { return nil }
