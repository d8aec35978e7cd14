package core

import (
	"context"
	"log/slog"
	"time"
)

// EngineConfig binds one source to one runner.
type EngineConfig struct {
	Transport string // the endpoint's name, for records and logs
	Driver    Driver
	Binding   Binding // process, replica, queue, concurrency, …
	Handlers  *RegistryView
	Publisher *Publisher // for PublisherFrom; may be nil

	Retry      RetryPolicy
	RetryTypes []RetryRule   // per type, first match wins by the registry's precedence
	Timeout    time.Duration // handler_timeout; 0 = none

	Grace             time.Duration // after a timeout's cancellation until the handler counts as stuck; default 200ms
	ShutdownTimeout   time.Duration // a soft stop becomes hard after it
	MaxCrashes        int           // default 5
	MaxDefers         int           // default 1000
	MaxStuck          int           // default 16
	MaxSize           int           // bytes of a body; default 16 MiB
	Prefetch          int           // deliveries held beyond running ones; 0 = adaptive up to max(2 × concurrency, 64), -1 = none
	DefaultJobType    string
	RetryUnregistered bool // unregistered: retry

	DeadSink  DeadSink // nil: the transport's own dead-letter place
	Gate      *Gate    // shared by all engines of the OS process; nil = its own
	Listeners []Listener
	Logger    *slog.Logger
}

// RetryRule is a retry policy for the types that match Pattern.
type RetryRule struct {
	Pattern string
	Policy  RetryPolicy
}

// DeadSink is a dead-letter place that is not the transport's own. The record is
// stored first, then the original is settled as done.
type DeadSink interface {
	Store(ctx context.Context, records []*DeadRecord) []error
}

// Engine receives, runs and settles for one replica of a process.
type Engine struct{}

// NewEngine checks cfg and fills its defaults.
func NewEngine(cfg EngineConfig) (*Engine, error) { return &Engine{}, nil }

// Run opens the source and works until ctx ends (soft stop: take no more, let
// handlers finish up to ShutdownTimeout, then cancel them and release) or Abort
// is called. It returns after all its goroutines but abandoned handlers have
// ended: nil after a stop in which everything was settled or its release was
// confirmed, *UnsettledError when not, *SetupError when no retry can help,
// ErrTooManyStuck at max_stuck, any other error when the source could not be
// opened.
func (e *Engine) Run(ctx context.Context) error { return nil }

// Abort makes a stop hard at once: handlers are cancelled, nothing is waited for
// but one try to release.
func (e *Engine) Abort() {}

// Pause stops fetching; running jobs finish. Resume goes on.
func (e *Engine) Pause()  {}
func (e *Engine) Resume() {}

// Status is ready when the source is subscribed and fetching (or paused) and
// settlements get through.
func (e *Engine) Status() Status { return Status{} }

// Running is how many handlers run now, Stuck how many were abandoned and have
// not returned, Finished how many deliveries were settled since the start.
func (e *Engine) Running() int    { return 0 }
func (e *Engine) Stuck() int      { return 0 }
func (e *Engine) Finished() int64 { return 0 }

// UnsettledError names the jobs that a stop left unsettled; they stay with the
// broker.
type UnsettledError struct{ IDs []string }

func (e *UnsettledError) Error() string { return "unsettled" }
