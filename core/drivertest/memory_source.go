package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// source is one subscription. Its fields are guarded by Memory.mu, but for
// those that never change after it was opened.
type source struct {
	m          *Memory
	d          *MemoryDriver
	q          *queue
	binding    core.Binding
	notices    core.Notices
	closing    chan struct{}
	background sync.WaitGroup // revocations

	lost     chan struct{} // shared by its deliveries where there are no lanes or leases
	removal  time.Time     // when the broker notices that it vanished
	turn     int           // the lane to look at first
	paused   map[core.Lane]bool
	stopped  bool
	closed   bool
	wasCut   bool        // the next Receive fails
	status   core.Status // as last reported
	reported bool
	receiver sync.Mutex
}

// The parts of a source beyond core.Source depend on the shape.
type (
	leasedSource struct{ *source }
	laneSource   struct{ *source }
)

var (
	_ core.Source     = (*source)(nil)
	_ core.Isolator   = (*source)(nil)
	_ core.Extender   = leasedSource{}
	_ core.LanePauser = laneSource{}
)

func (s *source) powers() core.Source {
	switch {
	case s.m.shape.CrashCount == core.SupportNone:
		return struct{ core.Source }{s}
	case s.m.shape.Lease > 0:
		return leasedSource{s}
	case s.m.shape.Partitions > 0:
		return laneSource{s}
	}
	return s
}

// Capabilities implements core.Source.
func (s *source) Capabilities() core.Capabilities { return s.m.Capabilities() }

// Receive implements core.Source.
func (s *source) Receive(ctx context.Context, limit int) ([]*core.Delivery, error) {
	if !s.receiver.TryLock() {
		panic("drivertest: two goroutines call Receive on one source")
	}
	defer s.receiver.Unlock()
	for {
		if err := s.m.meet(ctx, OpReceive, nil); err != nil {
			if ctx.Err() != nil {
				return nil, nil
			}
			s.report(core.Status{Reason: fmt.Sprintf("queue %s: %v", s.q.name, err)})
			return nil, err
		}
		got, changed, err := s.poll(limit)
		if err != nil {
			s.report(core.Status{Reason: fmt.Sprintf("queue %s: %v", s.q.name, err)})
			return nil, err
		}
		s.report(core.Status{Ready: true})
		if len(got) > 0 || changed == nil {
			return got, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-changed:
		}
	}
}

// poll takes what is ready. Without anything it returns the channel that is
// closed at the next change, or nil when nothing can come any more.
func (s *source) poll(limit int) ([]*core.Delivery, <-chan struct{}, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	switch {
	case s.d.gone:
		return nil, make(chan struct{}), nil // a vanished process hears nothing
	case s.stopped, s.closed:
		return nil, nil, nil
	case s.wasCut:
		s.wasCut = false
		return nil, nil, errCut
	}
	s.q.advance()
	var got []*core.Delivery
	for !s.q.paused && len(got) < limit {
		l := s.nextLane()
		if l == nil {
			break
		}
		got = append(got, s.delivery(l.take(s)))
	}
	if len(got) > 0 {
		s.q.touch() // leases have begun
	}
	return got, s.q.changed, nil
}

// nextLane goes round the lanes, one message from each.
func (s *source) nextLane() *lane {
	for i := range s.q.lanes {
		l := s.q.lanes[(s.turn+i)%len(s.q.lanes)]
		if l.open(s) {
			s.turn += i + 1
			return l
		}
	}
	return nil
}

func (s *source) delivery(c *claim) *core.Delivery {
	msg := c.msg
	d := &core.Delivery{
		Body: bytes.Clone(msg.body), Headers: slices.Clone(msg.headers), Key: msg.key, Lane: msg.lane.name,
		Charged: msg.charged, Lost: c.lost, Native: c,
	}
	if s.m.shape.CrashCount != core.SupportNone {
		d.Found = core.Count{N: msg.found, Exact: s.m.shape.CrashCount > core.SupportWeaker}
	}
	if s.m.shape.InPlace {
		d.Attempt = msg.attempt
		d.ID = fmt.Sprintf("%s-%d", s.q.name, msg.seq)
	}
	if msg.lane.name != "" {
		d.Ref = fmt.Sprintf("%s/%d", msg.lane.name, msg.offset)
	}
	return d
}

// report tells the engine when the state has changed.
func (s *source) report(st core.Status) {
	s.m.mu.Lock()
	st.Paused = st.Ready && s.q.paused
	news := !s.reported || s.status != st
	s.status, s.reported = st, true
	s.m.mu.Unlock()
	if news {
		s.notices.State(st)
	}
}

// Stop implements core.Source.
func (s *source) Stop(context.Context) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.stopped = true
	s.q.touch()
	return nil
}

// Close implements core.Source.
func (s *source) Close(ctx context.Context) error {
	err := s.m.meet(ctx, OpClose, nil)
	s.m.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
		switch {
		case s.d.gone:
		case err != nil:
			s.vanish() // the broker was not told
		default:
			s.q.leave(s)
		}
		s.q.touch()
	}
	s.m.mu.Unlock()
	s.background.Wait()
	return err
}

// vanish leaves everything as a killed process does: the broker notices later.
func (s *source) vanish() {
	now := time.Now()
	s.removal = now.Add(s.m.shape.Recovery)
	for _, c := range s.q.claimsOf(s) {
		if c.expires.IsZero() {
			c.expires = s.removal
		}
	}
	s.q.touch()
}

// PauseLanes implements core.LanePauser.
func (s laneSource) PauseLanes(lanes []core.Lane) { s.setPaused(lanes, true) }

// ResumeLanes implements core.LanePauser.
func (s laneSource) ResumeLanes(lanes []core.Lane) { s.setPaused(lanes, false) }

func (s *source) setPaused(lanes []core.Lane, paused bool) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for _, l := range lanes {
		s.paused[l] = paused
	}
	s.q.touch()
}

// ExtendLease implements core.Extender.
func (s leasedSource) ExtendLease(ctx context.Context, ds []*core.Delivery) []error {
	errs := make([]error, len(ds))
	if err := s.m.meet(ctx, OpExtend, nil); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.q.advance()
	for i, d := range ds {
		c := d.Native.(*claim)
		if c.msg.claim != c || s.d.gone {
			errs[i] = core.ErrStale
			continue
		}
		c.expires = time.Now().Add(s.m.shape.Lease)
	}
	s.q.touch()
	return errs
}

// LeaseDuration implements core.Extender.
func (s leasedSource) LeaseDuration() time.Duration { return s.m.shape.Lease }
