package core

import "time"

// EventKind names a fact. Logs, metrics, tracking and tests are listeners.
type EventKind uint8

// The facts, and which fields of Event they fill.
const (
	EventStarted         EventKind = iota + 1 // a handler is about to run: Job, Wait
	EventFinished                             // a decision is durable: Job (nil when malformed; IDs has the dead letter's id), Outcome, Cost, …
	EventExpired                              // meta.deadline passed; EventFinished (discarded) follows
	EventTimedOut                             // a handler was cancelled by its time limit
	EventStuck                                // a handler ignored its cancellation: Stack
	EventStuckReturned                        // a stuck handler came back; its late result was dropped
	EventPanicked                             // a handler panicked: Err, Stack
	EventStale                                // a settlement was dropped, the job was no longer ours
	EventSettleError                          // a settlement failed and will be tried again: Err, N tries
	EventRedelivered                          // deliveries found unsettled: Cause, N, IDs
	EventSuspect                              // a job will run alone: Job, N times found
	EventDeadOverflow                         // dead letters dropped by on_full: drop_oldest: N, IDs
	EventPriorityIgnored                      // meta.priority on a process with priority none
	EventStatus                               // the engine's status changed: Status
	EventPublished                            // N jobs stored
	EventDelayLate                            // a delayed job became ready: Wait is how late
)

// Event is one fact. Listeners get a pointer that is valid during the call
// only, are called in order from many goroutines, must not block, and may
// panic without harm.
type Event struct {
	Kind      EventKind
	Time      time.Time
	Process   string
	Transport string
	Queue     string
	Job       *Job
	Type      string // the registered type or pattern that matched, else "other": safe as a metric label
	Outcome   Outcome
	Reason    string        // of a dead letter; "expired" for a passed deadline
	Err       error         // what the handler or the broker said
	ErrText   string        // as stored in a dead letter
	Cost      time.Duration // handler run time
	Wait      time.Duration // created or due → start
	Delay     time.Duration // before the next attempt
	Next      int           // number of the next attempt; 0 = none
	N         int
	Cause     string
	IDs       []string
	Stack     []byte
	Status    Status
}

// Listener takes events. nil is not allowed.
type Listener func(*Event)
