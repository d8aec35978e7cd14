package core

import (
	"context"
	"log/slog"
	"time"
)

// This file is the whole contract between the engine and a broker. A driver
// author reads it, implements Driver, Source and PublishPort, adds the optional
// one-method interfaces that the broker can honour, and runs the conformance
// kit in core/drivertest.

// Driver opens sources and publishers on one endpoint (one URL). Its methods
// may be called from several goroutines at once.
type Driver interface {
	// OpenSource subscribes. It returns once the subscription is known to work,
	// or with an error: a *SetupError when no retry can help (the process stops
	// with exit code 78), anything else is tried again with backoff by the
	// process manager. n stays valid until the source's Close has returned.
	OpenSource(ctx context.Context, b Binding, n Notices) (Source, error)
	// OpenPublisher opens a port that stores jobs in b's queue.
	OpenPublisher(ctx context.Context, b Binding) (PublishPort, error)
	// Close frees what the driver's sources and publishers shared. They are
	// closed before.
	Close(ctx context.Context) error
}

// Source is one subscription. ACK and NACK live behind it.
type Source interface {
	// Capabilities says what this subscription can do. It is known once the
	// source is open, since the broker's version counts, and never changes.
	Capabilities() Capabilities

	// Receive blocks until at least one delivery is there and returns at most
	// max. When ctx ends it returns what it already took (possibly nothing) and
	// no error. One goroutine at a time calls it. An error means that fetching
	// does not work right now; the engine calls again after a backoff. A
	// *SetupError ends the process.
	Receive(ctx context.Context, max int) ([]*Delivery, error)

	// Settle carries out a batch of decisions and does not wait: it takes the
	// batch over and returns. done is called exactly once for each item, from
	// any goroutine, possibly before Settle returns:
	//
	//	nil       the outcome is durable at the broker
	//	ErrStale  the delivery is no longer ours; nothing was changed
	//	other     still ours and unsettled; the engine settles it again
	//
	// The engine keeps at most one batch in flight for each source, and never
	// has one delivery in two batches at once.
	Settle(batch []Settlement, done func(i int, err error))

	// Stop ends fetching: Receive returns what it holds and then nothing.
	// Settling, lease renewal and notices go on until Close.
	Stop(ctx context.Context) error

	// Close gives whatever is still unsettled back to the broker without a
	// charge, ends the subscription and leaves no goroutine behind.
	Close(ctx context.Context) error
}

// PublishPort stores messages in one queue. It may be used by several
// goroutines at once.
type PublishPort interface {
	// Publish stores every message and waits for the broker's word. It returns
	// nil when all are stored, else a slice as long as msgs with nil for each
	// one that is. A message with an error may still have been stored when its
	// reply was lost (at least once).
	Publish(ctx context.Context, msgs []Message) []error
	// Close waits for what is in flight and frees the port.
	Close(ctx context.Context) error
}

// Message is one encoded envelope on its way to a broker.
type Message struct {
	Body     []byte
	ID       string        // the envelope's jobId
	Type     string        // the envelope's jobType
	Key      string        // meta.partitionKey; "" = none
	Priority Priority      // meta.priority, nearest level
	Delay    time.Duration // 0 = now
}

// Binding says what a source or publisher is for.
type Binding struct {
	Process     string // the process's name; part of consumer names and logs
	Replica     int    // from 0
	Queue       string // list, queue or topic
	Concurrency int    // jobs that run at once; sizes windows and prefetches
	Priority    PriorityMode
	Ordering    Ordering
	DeadLetters DeadLetterPolicy // for the transport's own dead-letter place
	Accept      []string         // weakenings that the process agreed to: delay, priority, order, retention
	Options     any              // the driver's own options for this process; nil = its defaults
	Logger      *slog.Logger     // never nil
}

// DeadLetterPolicy bounds the transport's own dead-letter place.
type DeadLetterPolicy struct {
	MaxLen int64  // 0 = no cap
	OnFull OnFull // what happens to a dead letter past MaxLen
}

// OnFull says what happens when the dead-letter place is full.
type OnFull string

const (
	// OnFullStop leaves the source unsettled: Settle reports ErrDeadLettersFull.
	OnFullStop OnFull = "stop"
	// OnFullDropOldest drops the oldest entry, counted and logged by id.
	OnFullDropOldest OnFull = "drop_oldest"
)

// Lane is one flow of deliveries, for example a partition: a full or paused
// lane never holds up another. "" is the only lane of a source without lanes.
type Lane string

// Delivery is one message as a broker handed it over. The driver fills it and
// the engine only reads it; Body belongs to the delivery until it is settled.
type Delivery struct {
	Body    []byte
	Headers []Header // foreign ones only; the broker's own are removed
	Key     string   // order key; "" = none
	ID      string   // the broker's stable identity of this message, for envelopes without a jobId; "" = none
	Ref     string   // a stable position for people, e.g. orders/3/4711; "" = none
	Lane    Lane
	// Found counts how often this message was found unsettled after its worker
	// vanished, this time included.
	Found Count
	// Attempt is 0 where the envelope carries it, else the broker's own count.
	Attempt int
	// Charged: Body is what Isolate stored as charged, for the run that this
	// delivery is, and comes as a delivery of its own. It stays set when the
	// message comes again; Found then says so.
	Charged bool
	// Lost is closed when ownership is gone; deliveries of one lease or lane
	// share it. nil = ownership cannot be lost while the source is open.
	Lost <-chan struct{}
	// Native is the driver's own handle. Nobody else reads it.
	Native any
}

// Header is one foreign header of a message. Value keeps its native type.
type Header struct {
	Name  string
	Value any
}

// Count is a number that a broker may only know as an upper bound.
type Count struct {
	N     int
	Exact bool // false: an upper bound; cut connections may have raised it
}

// Verdict is what the driver does with one delivery.
type Verdict uint8

// The closed vocabulary of settlement.
const (
	// VerdictDone removes the message.
	VerdictDone Verdict = iota + 1
	// VerdictRetry stores Next, due after Delay, then removes the message.
	VerdictRetry
	// VerdictDefer is VerdictRetry for a job that is not charged an attempt.
	VerdictDefer
	// VerdictDead stores Dead in the transport's own dead-letter place, then
	// removes the message.
	VerdictDead
	// VerdictRelease gives the message back at once and uncharged, to run next.
	// When Next is set it replaces the body (the refund of a crash charge).
	VerdictRelease
)

// Settlement is one decision about one delivery.
type Settlement struct {
	D       *Delivery
	Verdict Verdict
	// Next is the next envelope. Drivers that retry in place get one only where
	// the body must be replaced: for Defer, which the envelope counts, and after
	// Isolate.
	Next  []byte
	Delay time.Duration // Retry, Defer: never cut short
	Dead  *DeadRecord   // Dead only
}

// Notices is what a source tells its engine unasked. All methods may be called
// from any goroutine; State and Event do not block.
type Notices interface {
	// State reports whether the source is subscribed and fetching. Paused says
	// that the broker itself has the queue paused, for every consumer: the engine
	// stops fetching until a State without it.
	State(Status)
	// Event reports a fact for logs and metrics (recovered orphans, dropped
	// dead letters, …). The event is not kept after the call.
	Event(*Event)
	// Revoking announces that lanes will be given up at the latest at until. The
	// returned channel is closed when nothing of those lanes runs any more.
	Revoking(lanes []Lane, until time.Time) <-chan struct{}
}

// Status is a source's or an engine's health.
type Status struct {
	Ready  bool
	Paused bool
	Reason string // one sentence, when not ready; names the queue or lane
}

// Support says how a driver provides a power.
type Support uint8

// How much a driver gives, from nothing up.
const (
	SupportNone     Support = iota // asking for it is an error at start
	SupportWeaker                  // needs the matching word in accept
	SupportEmulated                // full meaning, built by the driver
	SupportNative                  // full meaning, the broker's own
)

// Capabilities is what a source declares. The engine refuses at start what a
// process asks for and a source cannot give; see CheckCapabilities.
type Capabilities struct {
	Delay          Support
	Priority       Support
	OrderKey       Support
	OrderPartition Support
	OrderQueue     Support
	// CrashCount: SupportNone = Found is never set; SupportWeaker = an upper
	// bound; more = exact.
	CrashCount Support
	// AtomicSettle: a retry or dead letter and the removal of the original are
	// one step, so an interruption never doubles a job.
	AtomicSettle Support
	// InPlace drivers give the same body back on retry and count attempts
	// themselves (Delivery.Attempt); Settlement.Next is unused.
	InPlace bool
	// Lanes: deliveries carry a Lane and Revoking may be called.
	Lanes bool
	// Notes are sentences about limits, shown to people.
	Notes []string
}

// Isolator is implemented by sources that can note, durably and before it
// starts, that a suspect now runs alone.
type Isolator interface {
	// Isolate stores charged (the same job with one more crash) in d's place,
	// so that if this OS process vanishes, charged is what is found. It returns
	// the delivery to run and settle from now on. (nil, nil) means that the
	// charged job comes back as a delivery of its own, with Charged set and Found
	// 0. ErrStale as in Settle; on any other error nothing changed.
	Isolate(ctx context.Context, d *Delivery, charged []byte) (*Delivery, error)
}

// Extender is implemented by sources whose deliveries have leases that the
// engine must renew while a handler runs.
type Extender interface {
	// ExtendLease keeps ds ours for at least another lease. The engine calls it
	// every third of LeaseDuration.
	ExtendLease(ctx context.Context, ds []*Delivery) []error
	LeaseDuration() time.Duration
}

// LanePauser is implemented by sources that can stop fetching single lanes.
type LanePauser interface {
	PauseLanes(lanes []Lane)
	ResumeLanes(lanes []Lane)
}

// Inspector is implemented by drivers that can count what a queue holds.
type Inspector interface {
	Inspect(ctx context.Context, b Binding) (QueueStats, error)
}

// QueuePauser is implemented by drivers whose broker keeps for all consumers of a
// queue whether it is paused; their sources say so by Notices.State.
type QueuePauser interface {
	// PauseQueue returns once every consumer will see it.
	PauseQueue(ctx context.Context, b Binding, paused bool) error
}

// QueueStats is what a broker tells about a queue; nil = it does not tell.
type QueueStats struct {
	Ready         *int64
	Delayed       *int64
	InFlight      *int64
	Dead          *int64
	OldestSeconds *float64 // age of the oldest ready job
	Lag           *int64
	Paused        *bool // by QueuePauser
}
