package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// EngineConfig binds one source to one set of handlers. The zero value of a field
// is its default.
type EngineConfig struct {
	Transport string // the endpoint's name, for records and logs
	Driver    Driver
	Binding   Binding // process, replica, queue, concurrency, …
	Handlers  *RegistryView
	Publisher *Publisher // what PublisherFrom returns; may be nil

	Retry      RetryPolicy   // zero = DefaultRetryPolicy
	RetryTypes []RetryRule   // per type; the best match wins by the registry's precedence
	Timeout    time.Duration // handler_timeout; 0 = no limit

	Grace             time.Duration // from a handler's cancellation until it counts as stuck; default 200ms
	ShutdownTimeout   time.Duration // a soft stop becomes hard after it; default 25s
	MaxCrashes        int           // default 5
	MaxDefers         int           // default 1000
	MaxStuck          int           // default 16
	MaxSize           int           // bytes of a body; default 16 MiB
	Prefetch          int           // most deliveries held beyond running ones, see modestPrefetch; default max(2 × concurrency, 256), -1 = none
	Format            Format        // of the jobs on the wire; default FormatJob
	DefaultJobType    string        // wraps bodies that are no envelope; "" = they are malformed
	RetryUnregistered bool          // unregistered: retry

	DeadSink  DeadSink   // nil: the transport's own dead-letter place
	Gate      *Gate      // shared by all engines of the OS process; nil = its own
	Listeners []Listener // called in this order
	Logger    *slog.Logger
}

// RetryRule is a retry policy for the types that match Pattern.
type RetryRule struct {
	Pattern string
	Policy  RetryPolicy
}

// DeadSink is a dead-letter place that is not the transport's own. The record is
// stored first, then the original is settled as done. Store may block; an error
// (nil for all stored, else one for each) makes the engine try again later.
type DeadSink interface {
	Store(ctx context.Context, records []*DeadRecord) []error
}

// Engine receives, runs and settles for one replica of a process. It is used for
// one Run.
//
// Goroutines: Run itself (lifecycle), one fetcher (Receive, decoding, order,
// suspects), one worker a slot (handlers), one settler (Settle), one for a
// DeadSink, one for leases that need renewal. mu guards the fields below it; no
// call into a driver, listener or handler is made while it is held. Lock order:
// mu before the queue's and the gate's.
type Engine struct {
	cfg      EngineConfig
	policy   Policy
	gate     *Gate
	timeout  time.Duration
	grace    time.Duration
	maxStuck int

	source Source
	caps   Capabilities
	queue  *taskQueue
	settle settler
	loss   lossGroups

	hard       context.Context // ends handlers at a hard stop
	hardCancel context.CancelCauseFunc
	aborting   chan struct{} // closed by Abort
	abortOnce  sync.Once
	failing    chan struct{} // closed by fail
	quit       chan struct{} // closed when draining is over: whatever waits gives up
	wake       chan struct{} // cap 1: something changed that the fetcher waits for
	workers    sync.WaitGroup
	helpers    sync.WaitGroup

	undecided atomic.Int64  // deliveries without a decision
	idle      chan struct{} // cap 1: undecided reached 0

	running  atomic.Int64
	stuck    atomic.Int64
	finished atomic.Int64
	avgCost  atomic.Int64 // ns, of handlers, exponentially weighted

	mu            sync.Mutex
	onHand        int // deliveries that are not settled, and a Receive under way
	gated         int // those of them that the gate counts, see standBy
	tasks         map[*task]struct{}
	lanes         map[string]*lane // by order key
	flows         flows            // by the broker's lane
	slots         map[*worker]struct{}
	empty         []chan struct{} // closed when onHand reaches 0
	stopping      bool
	paused        bool
	cancelReceive context.CancelFunc // ends the Receive under way
	failure       error
	health        health
}

// NewEngine checks cfg and fills its defaults.
func NewEngine(cfg EngineConfig) (*Engine, error) {
	switch {
	case cfg.Driver == nil:
		return nil, errors.New("engine needs a driver")
	case cfg.Handlers == nil:
		return nil, errors.New("engine needs handlers: Registry.View")
	case cfg.Binding.Queue == "":
		return nil, errors.New("engine needs a queue")
	case cfg.Format.check() != nil:
		return nil, cfg.Format.check()
	case cfg.Format == FormatDelayQueue && cfg.DefaultJobType != "":
		return nil, errors.New("engine has a default job type, which format delayqueue has no use for")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Binding.Logger == nil {
		cfg.Binding.Logger = cfg.Logger
	}
	cfg.Retry = cfg.Retry.WithDefaults()
	if err := cfg.Retry.Validate(); err != nil {
		return nil, fmt.Errorf("retry policy: %w", err)
	}
	if cfg.Gate == nil {
		cfg.Gate = NewGate()
	}
	def(&cfg.Binding.Concurrency, 16)
	def(&cfg.Binding.Priority, PriorityNone)
	def(&cfg.Binding.Ordering, OrderingNone)
	def(&cfg.Grace, 200*time.Millisecond)
	def(&cfg.ShutdownTimeout, 25*time.Second)
	def(&cfg.MaxCrashes, 5)
	def(&cfg.MaxDefers, 1000)
	def(&cfg.MaxStuck, 16)
	def(&cfg.MaxSize, 16<<20)
	def(&cfg.Prefetch, defaultPrefetch(cfg.Binding.Concurrency))

	e := &Engine{
		cfg: cfg,
		policy: Policy{
			Retry: cfg.Retry, MaxCrashes: cfg.MaxCrashes,
			MaxDefers: cfg.MaxDefers, RetryUnregistered: cfg.RetryUnregistered,
		},
		gate: cfg.Gate, timeout: cfg.Timeout, grace: cfg.Grace, maxStuck: cfg.MaxStuck,
		queue:    newTaskQueue(),
		aborting: make(chan struct{}), failing: make(chan struct{}), quit: make(chan struct{}),
		wake: make(chan struct{}, 1), idle: make(chan struct{}, 1),
		tasks: map[*task]struct{}{}, lanes: map[string]*lane{}, slots: map[*worker]struct{}{},
	}
	for _, rule := range cfg.RetryTypes {
		retry := rule.Policy.WithDefaults()
		if err := errors.Join(retry.Validate(), e.policy.RetryFor(rule.Pattern, retry)); err != nil {
			return nil, fmt.Errorf("retry policy of %q: %w", rule.Pattern, err)
		}
	}
	e.settle.init(e)
	e.hard, e.hardCancel = context.WithCancelCause(context.Background())
	e.loss.parent = e.hard
	return e, nil
}

// def sets *v to d when it is the zero value.
func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Run opens the source and works until ctx ends (soft stop: take no more, let
// handlers finish up to ShutdownTimeout, then cancel them and release) or Abort
// is called. It returns after all its goroutines but abandoned handlers have
// ended: nil after a stop in which everything was settled or its release was
// confirmed, *UnsettledError when not, *SetupError when no retry can help,
// ErrTooManyStuck at max_stuck, any other error when the source could not be
// opened.
func (e *Engine) Run(ctx context.Context) error {
	source, err := e.open(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // stopped before it had begun
	case err != nil:
		return err
	}
	e.mu.Lock()
	e.source = source
	e.flows.init(source, e.caps, e.cfg.Binding.Concurrency+max(e.cfg.Prefetch, 0))
	e.mu.Unlock()
	e.refreshStatus()
	e.gate.join(e)
	defer e.gate.leave(e)

	fetchCtx, stopFetch := context.WithCancel(ctx)
	defer stopFetch()
	for range e.cfg.Binding.Concurrency {
		e.startWorker()
	}
	e.helpers.Go(e.settle.loop)
	if e.cfg.DeadSink != nil {
		e.helpers.Go(e.settle.sinkLoop)
	}
	if x, ok := source.(Extender); ok {
		e.helpers.Go(func() { e.extendLoop(x) })
	}
	e.helpers.Go(func() { e.fetchLoop(fetchCtx) })

	select {
	case <-ctx.Done():
	case <-e.aborting:
	case <-e.failing:
	}
	return e.shutdown(stopFetch)
}

// open subscribes and checks that the source can do what the process asks for.
func (e *Engine) open(ctx context.Context) (Source, error) {
	source, err := e.cfg.Driver.OpenSource(ctx, e.cfg.Binding, notices{e})
	if err != nil {
		return nil, err
	}
	e.caps = source.Capabilities()
	if err := CheckCapabilities(e.cfg.Binding, e.caps, e.cfg.Transport); err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return nil, errors.Join(err, source.Close(closing))
	}
	return source, nil
}

// Time limits of a stop, once handlers had their ShutdownTimeout.
const (
	hardGrace    = time.Second            // for handlers to notice their cancellation; at least EngineConfig.Grace
	settleWait   = 3 * time.Second        // for the last settlements
	closeTimeout = 3 * time.Second        // for the source to give the rest back
	abortWait    = 150 * time.Millisecond // each of them after Abort
	downTimeout  = time.Second            // closeTimeout of a source that is not ready: its broker is away
)

// shutdown stops softly, then hard.
func (e *Engine) shutdown(stopFetch func()) error {
	e.mu.Lock()
	e.stopping = true
	e.mu.Unlock()
	stopFetch()
	e.interrupt()
	e.releaseQueued()
	e.stopSource()

	if !e.waitDecided(e.cfg.ShutdownTimeout, 0) {
		e.hardCancel(ErrStopping)
		if !e.waitDecided(max(hardGrace, e.grace), abortWait) {
			e.abandonRunning()
		}
	}
	e.waitEmpty()
	e.queue.close()
	close(e.quit)
	e.hardCancel(ErrStopping) // a dead-letter sink that does not answer ends with it
	e.helpers.Wait()
	e.workers.Wait()
	return e.closeSource()
}

// waitDecided waits until every job on hand has its decision: at most limit, and
// at most aborted from Abort on.
func (e *Engine) waitDecided(limit, aborted time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	aborting := e.aborting
	for e.undecided.Load() > 0 {
		select {
		case <-e.idle:
		case <-timer.C:
			return e.undecided.Load() == 0
		case <-aborting:
			aborting = nil
			timer.Reset(min(limit, aborted))
		}
	}
	return true
}

// waitEmpty waits for the last settlements.
func (e *Engine) waitEmpty() {
	timer := time.NewTimer(settleWait)
	defer timer.Stop()
	empty, aborting := e.whenEmpty(), e.aborting
	for {
		select {
		case <-empty:
			return
		case <-timer.C:
			return
		case <-aborting:
			aborting = nil
			timer.Reset(abortWait)
		}
	}
}

// stopContext bounds a call into the source at the end.
func (e *Engine) stopContext() (context.Context, context.CancelFunc) {
	e.mu.Lock()
	up := e.health.source.Ready
	e.mu.Unlock()
	limit := closeTimeout
	if !up {
		limit = downTimeout
	}
	select {
	case <-e.aborting:
		limit = abortWait
	default:
	}
	return context.WithTimeout(context.Background(), limit)
}

func (e *Engine) stopSource() {
	ctx, cancel := e.stopContext()
	defer cancel()
	if err := e.source.Stop(ctx); err != nil {
		e.cfg.Logger.Warn("source.stop", "process", e.cfg.Binding.Process, "error", err)
	}
}

// closeSource gives the rest back and says what could not be.
func (e *Engine) closeSource() error {
	ctx, cancel := e.stopContext()
	defer cancel()
	err := e.source.Close(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leaveGateLocked(e.gated) // nothing of this engine is on hand any more
	switch {
	case e.failure != nil:
		return e.failure
	case err != nil && len(e.tasks) > 0:
		unsettled := &UnsettledError{Process: e.cfg.Binding.Process, Err: err}
		for t := range e.tasks {
			unsettled.IDs = append(unsettled.IDs, t.id())
		}
		return unsettled
	case err != nil:
		e.cfg.Logger.Warn("source.close", "process", e.cfg.Binding.Process, "error", err)
	}
	return nil
}

// Abort makes a stop hard at once: handlers are cancelled, and one short try is
// made to release what is left. It may be called at any time, more than once.
func (e *Engine) Abort() { e.abortOnce.Do(func() { close(e.aborting) }) }

// fail ends Run with err, after an orderly stop.
func (e *Engine) fail(err error) {
	e.mu.Lock()
	first := e.failure == nil
	if first {
		e.failure = err
	}
	e.mu.Unlock()
	if first {
		close(e.failing)
		e.refreshStatus()
	}
}

// Pause stops fetching; running jobs finish, fetched ones go back. A paused engine
// is ready.
func (e *Engine) Pause() { e.setPaused(true) }

// Resume undoes Pause.
func (e *Engine) Resume() { e.setPaused(false) }

func (e *Engine) setPaused(paused bool) {
	e.mu.Lock()
	e.paused = paused
	e.mu.Unlock()
	e.interrupt()
	e.refreshStatus()
}

// interrupt ends the Receive under way, if there is one, and wakes the fetcher.
func (e *Engine) interrupt() {
	e.mu.Lock()
	if e.cancelReceive != nil {
		e.cancelReceive()
	}
	e.mu.Unlock()
	e.wakeFetcher()
}

func (e *Engine) wakeFetcher() { signal(e.wake) }

// Running is how many handlers run now.
func (e *Engine) Running() int { return int(e.running.Load()) }

// Stuck is how many handlers were given up and have not returned.
func (e *Engine) Stuck() int { return int(e.stuck.Load()) }

// Finished is how many deliveries have left the engine since its start.
func (e *Engine) Finished() int64 { return e.finished.Load() }

// whenEmpty returns a channel that is closed once nothing is on hand.
func (e *Engine) whenEmpty() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	ch := make(chan struct{})
	if e.onHand == 0 {
		close(ch)
	} else {
		e.empty = append(e.empty, ch)
	}
	return ch
}

// abandonRunning gives up every handler that is still running and releases its job.
func (e *Engine) abandonRunning() {
	e.mu.Lock()
	slots := make([]*worker, 0, len(e.slots))
	for w := range e.slots {
		slots = append(slots, w)
	}
	e.mu.Unlock()
	for _, w := range slots {
		if t := w.current.Load(); t != nil {
			e.abandon(w, t, released())
		}
	}
}

// UnsettledError names the jobs that a stop left unsettled; they stay with the
// broker.
type UnsettledError struct {
	Process string
	IDs     []string
	Err     error // why they could not be released
}

func (e *UnsettledError) Error() string {
	const shown = 20
	ids := e.IDs
	more := ""
	if len(ids) > shown {
		more = fmt.Sprintf(" and %d more", len(ids)-shown)
		ids = ids[:shown]
	}
	return fmt.Sprintf("process %s stopped with %d unsettled jobs, which stay with the broker and will run again: %s%s (%v)",
		e.Process, len(e.IDs), strings.Join(ids, ", "), more, e.Err)
}

func (e *UnsettledError) Unwrap() error { return e.Err }
