package cli

import (
	"sync"

	"github.com/goconsumer/consumer/core"
)

// demoTally counts what the engine reports. A job counts once, by its id, even if
// it were delivered twice.
type demoTally struct {
	mu       sync.Mutex
	seen     map[string]bool
	outcomes map[core.Outcome]int
	reasons  map[string]int // dead letters by reason
	retries  int
	deferred int
	ended    chan struct{} // gets a token whenever a job has ended; holds one
}

func newDemoTally() *demoTally {
	return &demoTally{
		seen: map[string]bool{}, outcomes: map[core.Outcome]int{}, reasons: map[string]int{},
		ended: make(chan struct{}, 1),
	}
}

// listen is a core.Listener.
func (d *demoTally) listen(e *core.Event) {
	if e.Kind != core.EventFinished {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e.Outcome {
	case core.OutcomeRequeued:
		d.retries++
		return
	case core.OutcomeDeferred:
		d.deferred++
		return
	case core.OutcomeSuccess, core.OutcomeDiscarded, core.OutcomeDead:
	default:
		return
	}
	if e.Job != nil {
		if d.seen[e.Job.ID] {
			return
		}
		d.seen[e.Job.ID] = true
	}
	d.outcomes[e.Outcome]++
	if e.Outcome == core.OutcomeDead {
		d.reasons[e.Reason]++
	}
	select {
	case d.ended <- struct{}{}:
	default:
	}
}

// total is how many jobs have ended, in whatever way.
func (d *demoTally) total() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, count := range d.outcomes {
		n += count
	}
	return n
}
