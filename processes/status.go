package processes

import "github.com/goconsumer/consumer/core"

// State is where a process is in its life.
type State string

const (
	StateStarting State = "starting" // its subscription is not open yet
	StateRunning  State = "running"  // subscribed and fetching
	StatePaused   State = "paused"   // subscribed, told not to fetch
	StateRetrying State = "retrying" // its broker can't be reached, does not answer, or it crashed: it is tried again
	StateStopping State = "stopping" // draining
	StateStopped  State = "stopped"  // ended as asked
	StateFailed   State = "failed"   // stopped for good: setup fault, crash loop, too many stuck handlers, gave up
)

// ProcessStatus is one process's state. A process is ready when all its replicas
// are.
type ProcessStatus struct {
	Name         string
	Transport    string
	Queue        string
	State        State
	Ready        bool
	Reason       string // one sentence, when it is not running
	NeedsRestart bool   // only a new OS process helps: too many handlers are stuck
	Isolation    Isolation
	Replicas     int
	PIDs         []int // of child OS processes
	Running      int   // handlers that run now
	Stuck        int   // handlers that ignored their cancellation and have not returned
	Finished     int64 // deliveries settled since the start
	Restarts     int64 // crashes that were followed by a new start
}

// combine makes one process's state of its replicas': the first replica that is
// not ready speaks for all.
func combine(replicas []core.Status, tried bool) (state State, reason string) {
	paused := true
	for _, s := range replicas {
		if !s.Ready && tried {
			return StateRetrying, s.Reason
		}
		if !s.Ready {
			return StateStarting, s.Reason
		}
		paused = paused && s.Paused
	}
	if paused {
		return StatePaused, ""
	}
	return StateRunning, ""
}
