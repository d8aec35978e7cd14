package drivertest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Memory is a whole broker in memory, for the kit itself, for core's own tests
// and for core/coretest. It behaves like the kind of broker that its Shape
// describes, keeps what a real broker keeps when a client goes away, and has
// switches for faults (Inject, Down, Cut, Crash, Expire, Pause). It uses time
// only through package time, so it runs on the virtual clock of a
// testing/synctest bubble as it runs on the real one. It owns no goroutine.
//
// Every call of Open is another OS process: a driver that shares nothing with
// the others but the broker.
type Memory struct {
	shape Shape

	mu      sync.Mutex // guards everything below and in the broker's queues, sources and claims
	queues  map[string]*queue
	faults  []*fault
	down    bool
	lastSeq int64
}

// Shape is the kind of broker that a Memory is.
type Shape struct {
	Name string
	// InPlace: a retried message keeps its body and its identity, and the broker
	// counts the attempts; its delay is a time of invisibility.
	InPlace bool
	// Lease is how long one delivery stays ours without being renewed; 0 = as
	// long as the source is alive.
	Lease time.Duration
	// Recovery is how long after a source vanished its deliveries come back,
	// where Lease is 0.
	Recovery time.Duration
	// Partitions makes lanes: messages are spread over so many logs by their
	// key, each log belongs to one source at a time, and what is finished is a
	// committed offset with the set of finished ones above it.
	Partitions int
	// Drain is how long the lanes that are given up may take to finish.
	Drain time.Duration
	// Window is how many unfinished messages one lane may have on hand.
	Window int
	// CrashCount: SupportNone, SupportWeaker (a cut connection takes the
	// deliveries away and raises the count), SupportNative.
	CrashCount core.Support
	// Priority: higher priorities are delivered first.
	Priority bool
	// MaxSize is the largest body that the broker takes; 0 = any.
	MaxSize int
}

// The shapes of the brokers that the contract was made for.

// Republishing is a list broker with atomic settlement and an exact count of
// vanished workers, like Redis.
func Republishing() Shape {
	return Shape{Name: "republishing", Recovery: time.Second, CrashCount: core.SupportNative, Priority: true}
}

// UpperBound is a broker that takes the deliveries back as soon as the
// connection is cut and counts that like a crash, like RabbitMQ.
func UpperBound() Shape {
	return Shape{Name: "upper bound", CrashCount: core.SupportWeaker, Priority: true}
}

// InPlace is a broker that retries the very message it has and counts its
// attempts, like NATS.
func InPlace() Shape {
	return Shape{Name: "in place", InPlace: true, Recovery: time.Second, CrashCount: core.SupportNative}
}

// Leased is a broker whose deliveries must be renewed one by one and that
// retries in place, like SQS.
func Leased() Shape {
	return Shape{Name: "leased", InPlace: true, Lease: 3 * time.Second, CrashCount: core.SupportWeaker}
}

// Lanes is a log broker with partitions that move between members, like Kafka.
func Lanes() Shape {
	return Shape{
		Name: "lanes", Partitions: 4, Recovery: time.Second, Drain: 2 * time.Second, Window: 64,
		CrashCount: core.SupportNative,
	}
}

// Shapes lists all of the above.
func Shapes() []Shape {
	return []Shape{Republishing(), UpperBound(), InPlace(), Leased(), Lanes()}
}

// NewMemory starts an empty broker. Queues come into being when they are first
// named.
func NewMemory(shape Shape) *Memory {
	return &Memory{shape: shape, queues: map[string]*queue{}}
}

// Open connects one more OS process.
func (m *Memory) Open() *MemoryDriver { return &MemoryDriver{m: m} }

// Capabilities says what every source of this broker declares.
func (m *Memory) Capabilities() core.Capabilities {
	c := core.Capabilities{
		Delay:        core.SupportNative,
		CrashCount:   m.shape.CrashCount,
		AtomicSettle: core.SupportNative,
		InPlace:      m.shape.InPlace,
		Lanes:        m.shape.Partitions > 0,
	}
	if m.shape.Priority {
		c.Priority = core.SupportNative
	}
	if c.Lanes {
		c.OrderKey, c.OrderPartition = core.SupportNative, core.SupportNative
	}
	return c
}

// queue finds or makes a queue. m.mu is held.
func (m *Memory) queue(name string) *queue {
	q := m.queues[name]
	if q == nil {
		q = newQueue(m, name)
		m.queues[name] = q
	}
	return q
}

func (m *Memory) nextSeq() int64 {
	m.lastSeq++
	return m.lastSeq
}

// MemoryDriver is one OS process's view of a Memory.
type MemoryDriver struct {
	m       *Memory
	sources []*source // guarded by m.mu
	gone    bool      // vanished; guarded by m.mu
}

var (
	_ core.Driver    = (*MemoryDriver)(nil)
	_ core.Inspector = (*MemoryDriver)(nil)
)

// What the broker's faults look like from the outside.
var (
	errDown      = errors.New("broker is down")
	errCut       = errors.New("connection was cut")
	errReplyLost = errors.New("reply was lost")
	errVanished  = errors.New("this process has vanished")
)

// OpenSource subscribes at once; it fails while the broker is down.
func (d *MemoryDriver) OpenSource(ctx context.Context, b core.Binding, n core.Notices) (core.Source, error) {
	if err := d.m.meet(ctx, OpOpen, nil); err != nil {
		return nil, err
	}
	s := d.subscribe(b, n)
	s.report(core.Status{Ready: true})
	return s.powers(), nil
}

func (d *MemoryDriver) subscribe(b core.Binding, n core.Notices) *source {
	d.m.mu.Lock()
	defer d.m.mu.Unlock()
	s := &source{m: d.m, d: d, q: d.m.queue(b.Queue), binding: b, notices: n, closing: make(chan struct{}), paused: map[core.Lane]bool{}}
	d.sources = append(d.sources, s)
	s.q.join(s)
	return s
}

// OpenPublisher opens a port on b's queue.
func (d *MemoryDriver) OpenPublisher(ctx context.Context, b core.Binding) (core.PublishPort, error) {
	if err := d.m.meet(ctx, OpOpen, nil); err != nil {
		return nil, err
	}
	return &port{d: d, binding: b}, nil
}

// Close does nothing: the driver's sources and ports are closed before.
func (d *MemoryDriver) Close(context.Context) error { return nil }

// Inspect counts what b's queue holds.
func (d *MemoryDriver) Inspect(ctx context.Context, b core.Binding) (core.QueueStats, error) {
	if err := d.m.meet(ctx, OpInspect, nil); err != nil {
		return core.QueueStats{}, err
	}
	held := d.m.Held(b.Queue)
	count := func(n int) *int64 { v := int64(n); return &v }
	stats := core.QueueStats{
		Ready: count(len(held.Ready)), Delayed: count(len(held.Delayed)),
		InFlight: count(len(held.InFlight)), Dead: count(len(held.Dead)),
	}
	if len(held.Ready) > 0 {
		age := d.m.oldest(b.Queue).Seconds()
		stats.OldestSeconds = &age
	}
	return stats, nil
}
