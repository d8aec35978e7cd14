// Package processes hosts named consumer processes: it starts their engines,
// restarts what fails, stops everything in order and says how each one is.
package processes

import (
	"context"
	"log/slog"
	"time"

	"github.com/goconsumer/consumer/core"
)

// DriverFunc makes the driver of one endpoint. It must not wait for the broker.
// A *core.SetupError stops the processes on that endpoint.
type DriverFunc func(e Endpoint) (core.Driver, error)

// DeadSinkFunc makes the dead-letter place on a Redis endpoint for a process
// whose own transport is another one (dead_letter.driver: redis_list).
type DeadSinkFunc func(e Endpoint, d core.Driver, s Spec) (core.DeadSink, error)

// Options are what all processes of a host share.
type Options struct {
	Endpoints   []Endpoint
	Drivers     map[string]DriverFunc // by URL scheme: redis, rediss, embedded, …
	DeadSink    DeadSinkFunc          // nil: redis_list is a setup fault
	Registry    *core.Registry
	Listeners   []core.Listener
	GiveUpAfter time.Duration // not ready for so long ends Run with a *GiveUpError; 0 = never
	Logger      *slog.Logger  // default slog.Default()
}

// Manager hosts processes. Make one with New and call Run once.
type Manager struct {
	specs []Spec
	opts  Options
}

// New checks the specs against the options and fills their defaults. A fault is a
// *core.SetupError.
func New(specs []Spec, opts Options) (*Manager, error) {
	return &Manager{specs: specs, opts: opts}, nil
}

// Run starts every process and blocks until ctx ends and all have stopped (soft:
// no new jobs, running ones may finish for their shutdown_timeout), until none is
// left running, or until Abort. Run installs no signal handlers. ExitCode tells
// what its error means for a program.
func (m *Manager) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Abort makes the stop hard: handlers are cancelled and Run returns after one
// try to release what they held. It may be called at any time, more than once.
func (m *Manager) Abort() {}

// Pause stops a process from fetching and Resume lets it go on; both report
// whether the manager hosts a process of that name. A paused process is ready.
func (m *Manager) Pause(process string) bool  { return false }
func (m *Manager) Resume(process string) bool { return false }

// Status is the state of every hosted process, in the order of New's specs.
func (m *Manager) Status() []ProcessStatus { return nil }

// State is where a process is in its life.
type State string

const (
	StateStarting State = "starting" // its subscription is not open yet
	StateRunning  State = "running"  // subscribed and fetching
	StatePaused   State = "paused"   // subscribed, told not to fetch
	StateRetrying State = "retrying" // its broker can't be reached; it is tried again
	StateStopping State = "stopping" // draining
	StateStopped  State = "stopped"  // ended as asked
	StateFailed   State = "failed"   // stopped for good: setup fault, crash loop or too many stuck handlers
)

// ProcessStatus is one process's state. A process is ready when all its replicas
// are.
type ProcessStatus struct {
	Name      string
	Transport string
	Queue     string
	State     State
	Ready     bool
	Reason    string // one sentence, when it is not running
	Replicas  int
	Running   int   // handlers that run now
	Stuck     int   // handlers that ignored their cancellation and have not returned
	Finished  int64 // deliveries settled since the start
	Restarts  int64
}
