package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
)

func TestASoftStopLetsHandlersFinishAndGivesTheRestBack(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.pushJobs(20, "job", "job")
		e := s.start(map[string]core.Handler{"job": work(time.Second)})
		s.pass(100 * time.Millisecond)
		if err := e.drain(); err != nil {
			t.Errorf("stop: %v", err)
		}
		done := 0
		for _, ev := range s.events(core.EventFinished) {
			if ev.Job == nil {
				t.Errorf("a job is %s and nobody knows which", ev.Outcome)
			}
			if ev.Outcome == core.OutcomeSuccess {
				done++
			}
		}
		s.want("jobs that finished", done, 4)
		held := s.m.Held(queue)
		s.want("ready jobs", len(held.Ready), 16)
		s.want("jobs in flight", len(held.InFlight), 0)
		for _, body := range held.Ready {
			if !strings.Contains(string(body), `"attempt":1`) || strings.Contains(string(body), "crashes") {
				t.Errorf("a released job was charged: %s", body)
			}
		}
	})
}

func TestAStopThatRunsOutOfTimeCancelsAndReleases(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.pushJobs(3, "job", "job")
		causes := make(chan error, 3)
		e := s.start(map[string]core.Handler{"job": func(ctx context.Context, _ *core.Job) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		}}, func(c *core.EngineConfig) { c.ShutdownTimeout = 2 * time.Second })
		s.pass(time.Millisecond)
		start := time.Now()
		if err := e.drain(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("the stop took %v, want 2s", took)
		}
		for range 3 {
			if cause := <-causes; !errors.Is(cause, core.ErrStopping) {
				t.Errorf("a handler's context ended with %v, want ErrStopping", cause)
			}
		}
		s.want("ready jobs", len(s.m.Held(queue).Ready), 3)
		for _, ev := range s.events(core.EventFinished) {
			if ev.Outcome != core.OutcomeReleased {
				t.Errorf("%s ended as %s, want released", ev.Job.ID, ev.Outcome)
			}
		}
	})
}

func TestAHandlerThatFinishesDuringTheHardStopKeepsItsResult(t *testing.T) {
	onBroker(t, drivertest.Republishing(), func(s *stage) {
		s.push(envelope("job", "job"))
		e := s.start(map[string]core.Handler{"job": func(ctx context.Context, _ *core.Job) error {
			<-ctx.Done()
			return nil
		}}, func(c *core.EngineConfig) { c.ShutdownTimeout = time.Second })
		s.pass(time.Millisecond)
		if err := e.drain(); err != nil {
			t.Errorf("stop: %v", err)
		}
		s.wantOutcomes("job", core.OutcomeSuccess)
	})
}

func TestAbortWaitsForNobody(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.pushJobs(2, "job", "job")
		e := s.start(map[string]core.Handler{"job": stubborn(time.Minute)})
		s.pass(time.Millisecond)
		start := time.Now()
		e.Abort()
		<-e.ended
		if took := time.Since(start); took > time.Second {
			t.Errorf("Abort took %v, want less than 1s", took)
		}
		s.want("jobs at the broker", len(s.m.Held(queue).IDs()), 2)
		<-time.After(time.Minute) // the handlers return
	})
}

func TestAStopWithoutTheBrokerNamesWhatIsUnsettled(t *testing.T) {
	onBroker(t, drivertest.Republishing(), func(s *stage) {
		s.pushJobs(2, "job", "job")
		e := s.start(map[string]core.Handler{"job": work(time.Second)})
		s.pass(time.Millisecond)
		s.m.Down()
		err := e.drain()
		var unsettled *core.UnsettledError
		if !errors.As(err, &unsettled) {
			t.Fatalf("Run returned %v, want an *UnsettledError", err)
		}
		slices.Sort(unsettled.IDs)
		if !slices.Equal(unsettled.IDs, []string{"job-0", "job-1"}) {
			t.Errorf("unsettled are %v, want both jobs", unsettled.IDs)
		}
		s.m.Up()
		s.start(map[string]core.Handler{"job": succeed})
		s.pass(5 * time.Second)
		s.wantOutcomes("job-0", core.OutcomeSuccess)
		s.wantOutcomes("job-1", core.OutcomeSuccess)
	})
}

func TestAJobThatGoesBackUnreadIsStillNamed(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		e := s.start(map[string]core.Handler{"job": succeed})
		for i := range 100 { // which of the two the receiver sees first is open
			s.pass(time.Millisecond)
			s.push(envelope(fmt.Sprintf("job-%d", i), "job"))
			e.Pause()
			s.pass(time.Millisecond)
			e.Resume()
		}
		s.pass(time.Second)
		released := 0
		for _, ev := range s.events(core.EventFinished) {
			if ev.Job == nil {
				t.Errorf("a job is %s and nobody knows which", ev.Outcome)
				return
			}
			if ev.Outcome == core.OutcomeReleased {
				released++
			}
		}
		if released == 0 {
			t.Error("no job went back unread")
		}
	})
}

func TestAPausedEngineHoldsNothingAndIsReady(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		e := s.start(map[string]core.Handler{"job": succeed})
		s.pass(time.Millisecond)
		e.Pause()
		s.pushJobs(5, "job", "job")
		s.pass(time.Minute)
		s.want("handler runs while paused", len(s.events(core.EventStarted)), 0)
		if st := e.Status(); !st.Ready || !st.Paused {
			t.Errorf("status is %+v, want ready and paused", st)
		}
		s.want("ready jobs", len(s.m.Held(queue).Ready), 5)
		e.Resume()
		s.pass(time.Second)
		s.want("handler runs after Resume", len(s.events(core.EventStarted)), 5)
	})
}

func TestReadinessFollowsTheBroker(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		e := s.start(map[string]core.Handler{"job": succeed})
		s.pass(time.Millisecond)
		ready := func(want bool) {
			t.Helper()
			if st := e.Status(); st.Ready != want || !want && st.Reason == "" {
				t.Errorf("status is %+v, want ready %v", st, want)
			}
		}
		ready(true)
		s.m.Down()
		s.pass(time.Second)
		ready(false)
		s.m.Up()
		s.pass(10 * time.Second)
		ready(true)
	})
}

func TestASetupErrorEndsTheEngineAndOthersDoNot(t *testing.T) {
	onBroker(t, drivertest.Republishing(), func(s *stage) {
		s.m.Inject(drivertest.Fault{Op: drivertest.OpReceive, Times: 2, Err: errors.New("hiccup")})
		s.m.Inject(drivertest.Fault{Op: drivertest.OpReceive, Skip: 2, Err: &core.SetupError{Sentence: "the queue is gone: declare it"}})
		s.push(envelope("job", "job"))
		e := s.start(map[string]core.Handler{"job": succeed})
		<-e.ended
		var setup *core.SetupError
		if !errors.As(e.err, &setup) {
			t.Errorf("Run returned %v, want the *SetupError", e.err)
		}
	})
}

func TestWhatATransportCannotDoStopsTheStart(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*core.Binding){
		"priority": func(b *core.Binding) { b.Priority = core.PriorityLevels },
		"key":      func(b *core.Binding) { b.Ordering = core.OrderingKey },
		"queue":    func(b *core.Binding) { b.Ordering = core.OrderingQueue },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, drivertest.InPlace())
				e := s.start(map[string]core.Handler{"job": succeed}, func(c *core.EngineConfig) { ask(&c.Binding) })
				<-e.ended
				var setup *core.SetupError
				if !errors.As(e.err, &setup) || !strings.Contains(setup.Sentence, "job") {
					t.Errorf("Run returned %v, want a *SetupError that names the process", e.err)
				}
			})
		})
	}
}
