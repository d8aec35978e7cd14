package processes

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/goconsumer/consumer/core"
)

// recycledError is why a replica that works was stopped.
type recycledError struct {
	after string // jobs, memory or time
	left  error  // what its engine said at its end
}

func (e *recycledError) Error() string { return "recycled after its limit of " + e.after }

// recycler ends one engine softly when it has done or used enough.
type recycler struct {
	limits   Recycle
	end      context.CancelCauseFunc
	finished atomic.Int64
	timer    *time.Timer
}

// newRecycler returns the context for the engine to run under. stop frees it.
func newRecycler(ctx context.Context, limits Recycle) (r *recycler, engine context.Context, stop func()) {
	engine, end := context.WithCancelCause(ctx)
	r = &recycler{limits: limits, end: end}
	if limits.After > 0 {
		after := limits.After + time.Duration(rand.Int64N(int64(limits.After)/10+1))
		r.timer = time.AfterFunc(after, func() { r.due("time") })
	}
	return r, engine, func() {
		if r.timer != nil {
			r.timer.Stop()
		}
		end(nil)
	}
}

func (r *recycler) due(after string) { r.end(&recycledError{after: after}) }

// note counts a finished job.
func (r *recycler) note(e *core.Event) {
	if r.limits.Jobs > 0 && e.Outcome != core.OutcomeReleased && r.finished.Add(1) == int64(r.limits.Jobs) {
		r.due("jobs")
	}
}
