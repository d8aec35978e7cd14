package drivertest

import (
	"context"
	"slices"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Op is a kind of call that a Fault can hit.
type Op string

// The calls that reach the broker. Settle, Publish and Isolate are hit an item
// at a time.
const (
	OpOpen    Op = "open"
	OpReceive Op = "receive"
	OpSettle  Op = "settle"
	OpIsolate Op = "isolate"
	OpExtend  Op = "extend"
	OpPublish Op = "publish"
	OpInspect Op = "inspect"
	OpClose   Op = "close"
)

// Fault is one line of a fault script: what goes wrong at which calls.
type Fault struct {
	Op    Op
	Match func(body []byte) bool // nil = every item
	Skip  int                    // so many calls go well first
	Times int                    // then so many go wrong; 0 = all until it is removed

	// What goes wrong. Hold and Stall come first and may stand alone.
	Hold      <-chan struct{} // the call waits until it is closed
	Stall     time.Duration   // the call takes so long
	Err       error           // the call fails and changes nothing
	LoseReply bool            // the call is carried out and fails all the same
}

type fault struct {
	Fault
	seen int
}

// Inject adds a fault; several may be active and the first that matches a call
// hits it. remove ends it.
func (m *Memory) Inject(f Fault) (remove func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	added := &fault{Fault: f}
	m.faults = append(m.faults, added)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.faults = slices.DeleteFunc(m.faults, func(f *fault) bool { return f == added })
	}
}

// match finds the fault that hits one call; nil = none, on which all the
// methods below do nothing.
func (m *Memory) match(op Op, body []byte) *fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.faults {
		if f.Op != op || f.Match != nil && !f.Match(body) {
			continue
		}
		f.seen++
		if f.seen > f.Skip && (f.Times == 0 || f.seen <= f.Skip+f.Times) {
			return f
		}
	}
	return nil
}

func (f *fault) stalls() bool { return f != nil && (f.Stall > 0 || f.Hold != nil) }

// wait blocks as long as the fault says, or until ctx or closing ends.
func (f *fault) wait(ctx context.Context, closing <-chan struct{}) error {
	if !f.stalls() {
		return nil
	}
	if f.Hold != nil {
		if err := waitFor(ctx, f.Hold, closing); err != nil {
			return err
		}
	}
	stall, cancel := context.WithTimeout(context.Background(), f.Stall)
	defer cancel()
	return waitFor(ctx, stall.Done(), closing)
}

func waitFor(ctx context.Context, ended, closing <-chan struct{}) error {
	select {
	case <-ended:
		return nil
	case <-closing:
		return core.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *fault) before() error {
	if f == nil || f.LoseReply {
		return nil
	}
	return f.Err
}

func (f *fault) after() error {
	switch {
	case f == nil || !f.LoseReply:
		return nil
	case f.Err != nil:
		return f.Err
	}
	return errReplyLost
}

// meet is a call without items: it waits and fails as the faults and the
// broker's state say.
func (m *Memory) meet(ctx context.Context, op Op, body []byte) error {
	f := m.match(op, body)
	if err := f.wait(ctx, nil); err != nil {
		return err
	}
	if err := f.before(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down {
		return errDown
	}
	return nil
}

// Down makes every call fail until Up. Where a broken connection takes the
// deliveries away, they are taken away.
func (m *Memory) Down() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = true
	for _, q := range m.queues {
		for _, s := range slices.Clone(q.members) {
			s.cut()
		}
	}
}

// Up ends Down.
func (m *Memory) Up() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = false
}

// Pause stops every delivery from a queue.
func (m *Memory) Pause(queue string) { m.setPaused(queue, true) }

// Resume ends Pause.
func (m *Memory) Resume(queue string) { m.setPaused(queue, false) }

func (m *Memory) setPaused(queue string, paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(queue)
	q.paused = paused
	q.touch()
}

// Cut breaks the connections of one process; its sources subscribe again by
// themselves.
func (d *MemoryDriver) Cut() {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	for _, s := range d.sources {
		s.cut()
	}
}

// cut fails the next Receive. Where the broker cannot tell a cut connection
// from a vanished worker, the deliveries are taken back and counted.
func (s *source) cut() {
	if s.closed || s.d.gone {
		return
	}
	s.wasCut = true
	if s.m.shape.CrashCount == core.SupportWeaker && s.m.shape.Lease == 0 {
		s.expire()
	}
	s.q.touch()
}

// Expire takes away everything that the process holds, as though its leases had
// run out, while it goes on living: the deliveries come back with a higher
// count, its own results are stale.
func (d *MemoryDriver) Expire() {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	for _, s := range d.sources {
		if !s.closed {
			s.expire()
		}
	}
}

func (s *source) expire() {
	for _, c := range s.q.claimsOf(s) {
		c.msg.found++
		s.q.takeBack(c)
	}
	s.lost = make(chan struct{})
	for _, l := range s.q.lanes {
		if l.owner == s {
			l.handOver(nil)
		}
	}
	s.q.rebalance()
	s.q.touch()
}

// Crash makes the whole process vanish as SIGKILL does: nothing is released,
// nothing that it still tries reaches the broker. What it held is found later.
func (d *MemoryDriver) Crash() {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	if d.gone {
		return
	}
	d.gone = true
	for _, s := range d.sources {
		if !s.closed {
			s.vanish()
		}
	}
}
