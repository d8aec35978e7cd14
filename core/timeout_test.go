package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
)

// stubborn ignores its context for so long.
func stubborn(d time.Duration) core.Handler {
	return func(context.Context, *core.Job) error {
		<-time.After(d)
		return nil
	}
}

// once gives every job its only attempt.
func once(c *core.EngineConfig) { c.Retry.MaxAttempts = 1 }

func TestB43_AStuckHandlerKeepsNeitherItsJobNorItsSlot(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.pushJobs(2, "stuck", "stuck")
		s.push(envelope("late", "late"))
		s.pushJobs(20, "normal", "normal")
		start := time.Now()
		e := s.start(map[string]core.Handler{
			"stuck":  stubborn(time.Minute),
			"late":   stubborn(1300 * time.Millisecond),
			"normal": work(100 * time.Millisecond),
		}, once, func(c *core.EngineConfig) {
			c.Timeout = time.Second
			c.Binding.Concurrency = 2
		})
		s.pass(10 * time.Second)
		for i := range 20 {
			s.wantOutcomes(fmt.Sprintf("normal-%d", i), core.OutcomeSuccess)
		}
		for _, id := range []string{"stuck-0", "stuck-1", "late"} {
			s.wantOutcomes(id, core.OutcomeDead)
			if r := s.dead(id); r.Reason != core.ReasonExhausted || r.Error != "timed out after 1s" {
				t.Errorf("%s: dead letter says %q: %q", id, r.Reason, r.Error)
			}
		}
		started := map[string]time.Time{}
		for _, ev := range s.events(core.EventStarted) {
			started[ev.Job.ID] = ev.Time
		}
		for _, ev := range s.events(core.EventFinished) {
			if ev.Outcome != core.OutcomeDead {
				continue
			}
			if after := ev.Time.Sub(started[ev.Job.ID]); after < time.Second || after > 1500*time.Millisecond {
				t.Errorf("%s was settled %v after its start, want 1 to 1.5s", ev.Job.ID, after)
			}
		}
		s.want("handlers that hang still", e.Stuck(), 2)
		s.want("handlers given up", len(s.events(core.EventStuck)), 3)
		for _, ev := range s.events(core.EventStuck) {
			if !strings.Contains(string(ev.Stack), "stubborn") {
				t.Errorf("the stack of %s does not show where it hangs:\n%s", ev.Job.ID, ev.Stack)
			}
		}
		s.pass(time.Until(start.Add(70 * time.Second)))
		s.want("handlers that hang in the end", e.Stuck(), 0)
		s.want("late returns", len(s.events(core.EventStuckReturned)), 3)
		s.want("settlements", len(s.events(core.EventFinished)), 23)
	})
}

func TestB43_TooManyStuckHandlersEndTheEngine(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		const jobs, limit = 200, 16
		s.pushJobs(jobs, "stuck", "stuck")
		e := s.start(map[string]core.Handler{"stuck": stubborn(time.Minute)}, once, func(c *core.EngineConfig) {
			c.Timeout = time.Second
			c.MaxStuck = limit
			c.ShutdownTimeout = time.Second
		})
		<-e.ended
		if !errors.Is(e.err, core.ErrTooManyStuck) {
			t.Errorf("Run returned %v, want ErrTooManyStuck", e.err)
		}
		if st := e.Status(); st.Ready || st.Reason == "" {
			t.Errorf("status is %+v, want not ready with a reason", st)
		}
		if most := limit + 4; e.Stuck() > most {
			t.Errorf("%d handlers hang, want at most %d", e.Stuck(), most)
		}
		held := s.m.Held(queue)
		s.want("jobs at the broker", len(held.IDs()), jobs)
		<-time.After(2 * time.Minute) // the handlers return
	})
}

func TestAHandlerThatReturnsWithinTheGraceIsATimeoutAndNotStuck(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.push(envelope("slow", "slow"), envelope("done", "done"))
		e := s.start(map[string]core.Handler{
			"slow": work(time.Minute),
			"done": stubborn(1100 * time.Millisecond), // it succeeded: its word counts
		}, once, func(c *core.EngineConfig) { c.Timeout = time.Second })
		s.pass(5 * time.Second)
		s.wantOutcomes("slow", core.OutcomeDead)
		s.wantOutcomes("done", core.OutcomeSuccess)
		s.want("timeouts", len(s.events(core.EventTimedOut)), 2)
		s.want("stuck", len(s.events(core.EventStuck))+e.Stuck(), 0)
	})
}

func TestAJobsOwnTimeLimitBeatsTheProcesss(t *testing.T) {
	onBroker(t, drivertest.Republishing(), func(s *stage) {
		s.push(strings.Replace(envelope("short", "slow"), `"meta":{}`, `"meta":{"timeoutMs":50}`, 1))
		s.start(map[string]core.Handler{"slow": work(time.Minute)}, once, func(c *core.EngineConfig) { c.Timeout = time.Hour })
		s.pass(time.Second)
		if r := s.dead("short"); r.Error != "timed out after 50ms" {
			t.Errorf("dead letter says %q", r.Error)
		}
	})
}

func TestAnOrderedLaneStaysClosedWhileAStuckHandlerRuns(t *testing.T) {
	onBroker(t, drivertest.Lanes(), func(s *stage) {
		keyed := func(id, jobType string) core.Message {
			body := strings.Replace(envelope(id, jobType), `"meta":{}`, `"meta":{"partitionKey":"k"}`, 1)
			return core.Message{Body: []byte(body), Key: "k"}
		}
		if errs := s.pub.Publish(t.Context(), []core.Message{keyed("first", "stuck"), keyed("second", "normal")}); errs != nil {
			t.Fatal(errs)
		}
		s.start(map[string]core.Handler{"stuck": stubborn(30 * time.Second), "normal": succeed}, once, func(c *core.EngineConfig) {
			c.Timeout = time.Second
			c.Binding.Ordering = core.OrderingKey
		})
		s.pass(20 * time.Second)
		s.wantOutcomes("first", core.OutcomeDead)
		s.wantOutcomes("second")
		s.pass(20 * time.Second)
		s.wantOutcomes("second", core.OutcomeSuccess)
	})
}
