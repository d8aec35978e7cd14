package coretest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Trace is what happened to a job.
type Trace struct {
	Attempts  []Attempt        // in order; none when the job never reached a handler
	Outcome   core.Outcome     // how it ended: success, discarded or dead
	Dead      *core.DeadRecord // with OutcomeDead
	Published []*core.Job      // what the handler published, the delayed ones last
	Took      time.Duration    // from publishing to the end
}

// Attempt is one run of the handler.
type Attempt struct {
	Number  int           // as the handler saw it
	At      time.Duration // since the job was published
	Cost    time.Duration // how long the handler ran
	Outcome core.Outcome  // "" = the worker died
	Error   string        // as it is kept and logged; "" = none
	Delay   time.Duration // until the next run is due
	Crashed bool          // the worker died, see Config.CrashIn
}

// String is the trace as text, a line for each run, for messages of failure.
func (t *Trace) String() string {
	var b strings.Builder
	for _, r := range t.Attempts {
		fmt.Fprintf(&b, "%10v  attempt %d ran %v: ", r.At, r.Number, r.Cost)
		switch {
		case r.Crashed:
			b.WriteString("the worker died")
		case r.Error != "":
			fmt.Fprintf(&b, "%s, %s", r.Outcome, r.Error)
		default:
			b.WriteString(string(r.Outcome))
		}
		if r.Delay > 0 {
			fmt.Fprintf(&b, ", again in %v", r.Delay)
		}
		b.WriteByte('\n')
	}
	if t.Dead != nil {
		fmt.Fprintf(&b, "dead letter: %s, %s\n", t.Dead.Reason, t.Dead.Error)
	}
	return b.String()
}

// recording makes a trace out of an engine's events.
type recording struct {
	*Trace
	start time.Time
	end   chan struct{} // closed at the job's end

	mu      sync.Mutex
	running bool // the last run has not ended
}

func newRecording() *recording { return &recording{Trace: &Trace{}, end: make(chan struct{})} }

func (r *recording) listen(ev *core.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch ev.Kind {
	case core.EventStarted:
		r.Attempts = append(r.Attempts, Attempt{Number: ev.Job.Attempt, At: ev.Time.Sub(r.start)})
		r.running = true
	case core.EventFinished:
		r.finished(ev)
	}
}

func (r *recording) finished(ev *core.Event) {
	if r.running {
		last := &r.Attempts[len(r.Attempts)-1]
		last.Cost, last.Outcome, last.Error, last.Delay = ev.Cost, ev.Outcome, ev.ErrText, ev.Delay
		r.running = false
	}
	switch ev.Outcome {
	case core.OutcomeSuccess, core.OutcomeDiscarded, core.OutcomeDead:
		r.Outcome, r.Took = ev.Outcome, ev.Time.Sub(r.start)
		close(r.end)
	}
}

// died ends the last run without a result.
func (r *recording) died() {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := &r.Attempts[len(r.Attempts)-1]
	last.Cost, last.Crashed = time.Since(r.start)-last.At, true
	r.running = false
}

func (r *recording) ended() bool {
	select {
	case <-r.end:
		return true
	default:
		return false
	}
}
