package core_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
)

// panics are the ways in which code around a handler can end, by job type.
var panics = map[string]core.Handler{
	"string": func(context.Context, *core.Job) error { panic("broken") },
	"nil":    func(context.Context, *core.Job) error { panic(nil) },
	"error":  func(context.Context, *core.Job) error { panic(errors.New("broken")) },
	"result": func(context.Context, *core.Job) error { panic(core.Discard(errors.New("no result"))) },
	"goexit": func(context.Context, *core.Job) error { runtime.Goexit(); return nil },
	"before": succeed,
	"after":  succeed,
}

// panicking is middleware that panics around the types named for it.
func panicking(next core.Handler) core.Handler {
	return func(ctx context.Context, j *core.Job) error {
		if j.Type == "before" {
			panic("before next")
		}
		err := next(ctx, j)
		if j.Type == "after" {
			panic("after next")
		}
		return err
	}
}

func TestB44_APanicOfAnySortCostsOneAttemptAndNothingElse(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		var most, running atomic.Int32
		hs := map[string]core.Handler{"normal": func(ctx context.Context, j *core.Job) error {
			n := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			return work(10*time.Millisecond)(ctx, j)
		}}
		for jobType, h := range panics {
			hs[jobType] = h
			s.push(envelope(jobType, jobType))
		}
		e := s.start(nil, once, func(c *core.EngineConfig) {
			c.Binding.Concurrency = 2
			c.Handlers = s.registry(hs, panicking)
		})
		s.pass(time.Second)
		for jobType := range panics {
			s.wantOutcomes(jobType, core.OutcomeDead)
			if r := s.dead(jobType); r.Reason != core.ReasonExhausted || r.Error == "" {
				t.Errorf("%s: dead letter says %q: %q", jobType, r.Reason, r.Error)
			}
		}
		s.want("panics told with their stack", withStack(s.events(core.EventPanicked)), len(panics)-1) // Goexit is none

		s.pushJobs(50, "normal", "normal")
		s.pass(time.Second)
		for i := range 50 {
			s.wantOutcomes(fmt.Sprintf("normal-%d", i), core.OutcomeSuccess)
		}
		s.want("handlers at once", int(most.Load()), 2)
		if err := e.drain(); err != nil {
			t.Errorf("stop: %v", err)
		} // the bubble's end checks that no goroutine is left
	})
}

func withStack(events []core.Event) (n int) {
	for _, ev := range events {
		if strings.Contains(string(ev.Stack), "goroutine ") {
			n++
		}
	}
	return n
}

func TestB44_APanicInAHookChangesNoOutcome(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.push(envelope("good", "good"), envelope("bad", "bad"))
		s.start(map[string]core.Handler{
			"good": succeed,
			"bad":  func(context.Context, *core.Job) error { return core.Fail(errBusy) },
		}, func(c *core.EngineConfig) {
			c.Listeners = append([]core.Listener{func(ev *core.Event) { panic(ev.Kind) }}, c.Listeners...)
		})
		s.pass(time.Second)
		s.wantOutcomes("good", core.OutcomeSuccess)
		s.wantOutcomes("bad", core.OutcomeDead)
		s.want("messages left", s.m.Held(queue).Waiting(), 0)
	})
}
