package drivertest

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// run is one execution of a handler.
type run struct {
	id      string
	attempt int
	start   time.Time
	end     time.Time
	success bool // it returned nil while it was not cancelled
}

// ledger is what the case's own handlers and listeners saw. The driver's word
// never enters it.
type ledger struct {
	mu       sync.Mutex
	sent     []string
	runs     []run
	running  int
	most     int // handlers that ran at once
	outcomes map[string][]core.Outcome
	events   []core.EventKind
	news     chan struct{} // closed and replaced at every change
}

func newLedger() *ledger {
	return &ledger{outcomes: map[string][]core.Outcome{}, news: make(chan struct{})}
}

func (l *ledger) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.news)
	l.news = make(chan struct{})
}

func (l *ledger) published(id string) {
	if id != "" {
		l.change(func() { l.sent = append(l.sent, id) })
	}
}

// begin notes that a handler starts and returns what notes its end.
func (l *ledger) begin(j *core.Job) (end func(success bool)) {
	var at int
	l.change(func() {
		at = len(l.runs)
		l.runs = append(l.runs, run{id: j.ID, attempt: j.Attempt, start: time.Now()})
		l.running++
		l.most = max(l.most, l.running)
	})
	return func(success bool) {
		l.change(func() {
			l.runs[at].end, l.runs[at].success = time.Now(), success
			l.running--
		})
	}
}

// listen is a core.Listener.
func (l *ledger) listen(ev *core.Event) {
	l.change(func() {
		l.events = append(l.events, ev.Kind)
		if ev.Kind == core.EventFinished {
			id := ""
			if ev.Job != nil {
				id = ev.Job.ID
			}
			l.outcomes[id] = append(l.outcomes[id], ev.Outcome)
		}
	})
}

// runsOf lists the executions of one job, or of all for "".
func (l *ledger) runsOf(id string) []run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.runs), func(r run) bool { return id != "" && r.id != id })
}

func (l *ledger) outcomesOf(id string) []core.Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.outcomes[id])
}

func (l *ledger) count(kind core.EventKind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, k := range l.events {
		if k == kind {
			n++
		}
	}
	return n
}

// terminal says whether an outcome ends a job's life outside the broker.
func terminal(o core.Outcome) bool { return o == core.OutcomeSuccess || o == core.OutcomeDiscarded }

// unfinished lists the published ids that were never finished. A run that
// succeeded finishes its job, too: when the process vanishes after the settlement
// was carried out and before its reply, no event tells of it.
func (l *ledger) unfinished() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	open := map[string]bool{}
	for _, id := range l.sent {
		open[id] = !slices.ContainsFunc(l.outcomes[id], terminal)
	}
	for _, r := range l.runs {
		if r.success {
			open[r.id] = false
		}
	}
	maps.DeleteFunc(open, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(open))
}

// await waits until the ledger looks as wanted.
func (k *kit) awaitLedger(what string, within time.Duration, holds func(l *ledger) bool) {
	k.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	for {
		k.ledger.mu.Lock()
		news := k.ledger.news
		k.ledger.mu.Unlock()
		if holds(k.ledger) {
			return
		}
		select {
		case <-news:
		case <-limit.C:
			k.Fatalf("not within %v: %s (unfinished: %v)", within, what, k.ledger.unfinished())
		}
	}
}

// awaitOutcomes waits until a job has had exactly these outcomes.
func (k *kit) awaitOutcomes(id string, want ...core.Outcome) {
	k.Helper()
	k.awaitLedger("outcomes of "+id, k.limits.Patience, func(l *ledger) bool { return len(l.outcomesOf(id)) >= len(want) })
	if got := k.ledger.outcomesOf(id); !slices.Equal(got, want) {
		k.Errorf("job %s had outcomes %v, want %v", id, got, want)
	}
}

// awaitFinished waits until every published job succeeded or was discarded.
func (k *kit) awaitFinished(within time.Duration) {
	k.Helper()
	k.awaitLedger("every job is finished", within, func(l *ledger) bool { return len(l.unfinished()) == 0 })
}

// busiest is how many handlers ran at once at most.
func (l *ledger) busiest() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}
