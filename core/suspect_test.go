package core_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
)

// killer tells when it starts and then does what a killed process does: nothing.
func killer(struck chan<- struct{}) core.Handler {
	return func(ctx context.Context, _ *core.Job) error {
		select {
		case struck <- struct{}{}:
		case <-ctx.Done():
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

// alone is a handler that notices what runs beside it.
type alone struct {
	running, suspects atomic.Int32
	beside            atomic.Int32 // handlers that ran beside a suspect
}

func (a *alone) watch(suspect bool, h core.Handler) core.Handler {
	return func(ctx context.Context, j *core.Job) error {
		n := a.running.Add(1)
		defer a.running.Add(-1)
		if suspect {
			a.suspects.Add(1)
			defer a.suspects.Add(-1)
		}
		if a.suspects.Load() > 0 && n > 1 {
			a.beside.Add(1)
		}
		return h(ctx, j)
	}
}

// foundTwice makes a job a suspect: two processes vanish while they hold it.
func (s *stage) foundTwice(ids ...string) {
	for _, id := range ids {
		s.push(envelope(id, "suspect"))
	}
	for range 2 {
		d := s.m.Open()
		src, err := d.OpenSource(s.Context(), core.Binding{Queue: queue}, silent{})
		if err != nil {
			s.Fatal(err)
		}
		for held := 0; held < len(ids); {
			ds, err := src.Receive(s.Context(), len(ids)-held)
			if err != nil {
				s.Fatal(err)
			}
			held += len(ds)
		}
		d.Crash()
		if err := src.Close(context.Background()); err != nil {
			s.Fatal(err)
		}
	}
	s.pass(10 * time.Second) // recovery
}

// silent is a Notices that nobody listens to.
type silent struct{}

func (silent) State(core.Status) {}
func (silent) Event(*core.Event) {}
func (silent) Revoking([]core.Lane, time.Time) <-chan struct{} {
	drained := make(chan struct{})
	close(drained)
	return drained
}

func TestASuspectRunsAloneInItsOSProcess(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.foundTwice("suspect-0", "suspect-1")
		s.pushJobs(30, "job", "job")
		var a alone
		hs := map[string]core.Handler{
			"suspect": a.watch(true, work(500*time.Millisecond)),
			"job":     a.watch(false, work(50*time.Millisecond)),
		}
		gate := core.NewGate() // two replicas of one OS process
		for range 2 {
			s.start(hs, func(c *core.EngineConfig) { c.Gate = gate })
		}
		s.pass(2 * time.Minute)
		s.want("handlers beside a suspect", int(a.beside.Load()), 0)
		for i := range 30 {
			s.wantLast(fmt.Sprintf("job-%d", i), core.OutcomeSuccess)
		}
		for i := range 2 {
			s.wantLast(fmt.Sprintf("suspect-%d", i), core.OutcomeSuccess)
		}
		held := s.m.Held(queue)
		s.want("messages left", held.Waiting(), 0)
		s.want("dead letters", len(held.Dead), 0)
	})
}

// wantLast checks how a job ended; it may have been released before.
func (s *stage) wantLast(id string, want core.Outcome) {
	s.Helper()
	got := s.outcomes(id)
	if len(got) == 0 || got[len(got)-1] != want {
		s.Errorf("job %s had outcomes %v, want %s in the end", id, got, want)
	}
}

func TestWhatWasFoundOnceRunsSideBySide(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.pushJobs(4, "job", "job")
		release := make(chan struct{})
		var running atomic.Int32
		hs := map[string]core.Handler{"job": func(ctx context.Context, _ *core.Job) error {
			running.Add(1)
			defer running.Add(-1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return ctx.Err()
		}}
		first := s.start(hs)
		s.pass(time.Millisecond)
		first.crash()
		s.start(hs)
		s.pass(10 * time.Second)
		s.want("handlers that run side by side", int(running.Load()), 4)
		s.want("suspects", len(s.events(core.EventSuspect)), 0)
		close(release)
		s.pass(time.Second)
		s.want("messages left", s.m.Held(queue).Waiting(), 0)
	})
}

func TestAKillerIsStoppedWithOneAndWithTwoReplicas(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		t.Run(fmt.Sprintf("replicas %d", replicas), func(t *testing.T) {
			onEveryBroker(t, func(s *stage) {
				const maxCrashes = 3
				s.pushJobs(19, "innocent", "innocent")
				s.push(envelope("killer", "killer"))
				struck := make(chan struct{})
				hs := map[string]core.Handler{"innocent": work(300 * time.Millisecond), "killer": killer(struck)}
				killed := 0
				for len(s.outcomesOf("killer", core.OutcomeDead)) == 0 {
					engines := s.startProcess(replicas, hs, maxCrashes)
					select {
					case <-struck:
						killed++
						s.pass(50 * time.Millisecond) // the innocents are in flight
						s.vanish(engines)
					case <-time.After(5 * time.Minute):
						for _, e := range engines {
							if err := e.drain(); err != nil {
								t.Errorf("stop: %v", err)
							}
						}
					}
					if killed > maxCrashes+3 {
						t.Fatalf("the killer has killed %d workers, want at most max_crashes (%d) + 3", killed, maxCrashes)
					}
				}
				for i := range 19 {
					s.wantLast(fmt.Sprintf("innocent-%d", i), core.OutcomeSuccess)
				}
				held := s.m.Held(queue)
				s.want("dead letters", len(held.Dead), 1)
				if r := s.dead("killer"); r.Reason != core.ReasonCrashed {
					t.Errorf("the killer's dead letter says %q", r.Reason)
				}
				s.want("messages left", held.Waiting(), 0)
			})
		})
	}
}

func (s *stage) outcomesOf(id string, want core.Outcome) (n []core.Outcome) {
	for _, o := range s.outcomes(id) {
		if o == want {
			n = append(n, o)
		}
	}
	return n
}

// startProcess runs some engines as one OS process: one driver, one gate.
func (s *stage) startProcess(replicas int, hs map[string]core.Handler, maxCrashes int) []*engine {
	s.Helper()
	d, gate := s.m.Open(), core.NewGate()
	var engines []*engine
	for i := range replicas {
		e := s.start(hs, func(c *core.EngineConfig) {
			c.Driver, c.Gate, c.Binding.Replica = d, gate, i
			c.Binding.Concurrency = 20
			c.MaxCrashes = maxCrashes
		})
		e.d = d
		engines = append(engines, e)
	}
	return engines
}

// vanish kills the OS process of some engines.
func (s *stage) vanish(engines []*engine) {
	engines[0].d.Crash()
	for _, e := range engines {
		e.Abort()
	}
	for _, e := range engines {
		<-e.ended
	}
}

func TestASuspectThatEndsWellIsNotCharged(t *testing.T) {
	for name, result := range map[string]error{"retry": errBusy, "defer": core.Defer(errBusy), "fail": core.Fail(errBusy)} {
		t.Run(name, func(t *testing.T) {
			onEveryBroker(t, func(s *stage) {
				s.foundTwice("suspect")
				runs := 0
				s.start(map[string]core.Handler{"suspect": func(_ context.Context, j *core.Job) error {
					if j.Meta.Crashes() != 0 {
						t.Errorf("the handler sees meta.crashes %d", j.Meta.Crashes())
					}
					if runs++; runs == 1 {
						return result
					}
					return nil
				}})
				s.pass(time.Minute)
				held := s.m.Held(queue)
				s.want("messages left", held.Waiting(), 0)
				if name == "fail" {
					s.want("crashes in the dead letter", s.dead("suspect").Job.Meta.Crashes(), 0)
					return
				}
				s.wantLast("suspect", core.OutcomeSuccess)
				s.want("handler runs", runs, 2)
			})
		})
	}
}

func TestASuspectThatIsReleasedAtAStopIsNotCharged(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		for round := range 3 {
			if round == 0 {
				s.foundTwice("suspect")
			}
			started := make(chan struct{}, 1)
			e := s.start(map[string]core.Handler{"suspect": func(ctx context.Context, _ *core.Job) error {
				started <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}}, func(c *core.EngineConfig) {
				c.ShutdownTimeout = time.Millisecond
				c.MaxCrashes = 1
			})
			<-started
			if err := e.drain(); err != nil {
				t.Errorf("stop: %v", err)
			}
		}
		e := s.start(map[string]core.Handler{"suspect": succeed}, func(c *core.EngineConfig) { c.MaxCrashes = 1 })
		s.pass(time.Minute)
		s.wantLast("suspect", core.OutcomeSuccess)
		if err := e.drain(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestAnIsolationThatFailsIsTriedAgain(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.foundTwice("suspect")
		s.m.Inject(drivertest.Fault{Op: drivertest.OpIsolate, Times: 2, Err: errBusy})
		s.start(map[string]core.Handler{"suspect": succeed})
		s.pass(time.Minute)
		s.wantLast("suspect", core.OutcomeSuccess)
		s.want("handler runs", len(s.events(core.EventStarted)), 1)
	})
}

func TestCutConnectionsWhileASuspectRunsCondemnNobody(t *testing.T) {
	onBrokers(t, []drivertest.Shape{drivertest.Republishing(), drivertest.UpperBound(), drivertest.Lanes()}, func(s *stage) {
		s.foundTwice("suspect")
		runs := 0
		e := s.start(map[string]core.Handler{"suspect": func(ctx context.Context, j *core.Job) error {
			if runs++; runs > 8 {
				return nil
			}
			return work(time.Second)(ctx, j)
		}}, func(c *core.EngineConfig) { c.MaxCrashes = 2 })
		for range 8 {
			s.pass(500 * time.Millisecond)
			e.d.Cut()
		}
		s.pass(time.Minute)
		s.want("dead letters", len(s.m.Held(queue).Dead), 0)
		s.wantLast("suspect", core.OutcomeSuccess)
	})
}

func TestASuspectDoesNotWaitForSettlementsThatDoNotGetThrough(t *testing.T) {
	onBroker(t, drivertest.Republishing(), func(s *stage) {
		gate := core.NewGate() // two processes of one OS process, on two brokers
		other := newStage(s.T, drivertest.Republishing())
		other.m.Inject(drivertest.Fault{Op: drivertest.OpSettle, Err: errBusy})
		other.pushJobs(1, "job", "job")
		hs := map[string]core.Handler{"job": succeed, "suspect": succeed}
		other.start(hs, func(c *core.EngineConfig) { c.Gate = gate })
		s.pass(time.Second)
		other.want("failed settlements", min(len(other.events(core.EventSettleError)), 1), 1)

		s.foundTwice("suspect")
		s.start(hs, func(c *core.EngineConfig) { c.Gate = gate })
		s.pass(10 * time.Second)
		s.wantLast("suspect", core.OutcomeSuccess)
	})
}

func TestASuspectThatCannotBeSettledHoldsUpNoOtherJob(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.foundTwice("suspect")
		s.m.Inject(drivertest.Fault{Op: drivertest.OpSettle, Err: errBusy, Match: func(body []byte) bool {
			return bytes.Contains(body, []byte(`"suspect"`))
		}})
		gate := core.NewGate()
		hs := map[string]core.Handler{"job": succeed, "suspect": succeed}
		s.start(hs, func(c *core.EngineConfig) { c.Gate = gate })
		s.pass(10 * time.Second)
		s.want("runs of the suspect", len(s.events(core.EventStarted)), 1)

		other := newStage(s.T, drivertest.Republishing())
		other.pushJobs(3, "job", "job")
		other.start(hs, func(c *core.EngineConfig) { c.Gate = gate })
		s.pass(10 * time.Second)
		for i := range 3 {
			other.wantLast(fmt.Sprintf("job-%d", i), core.OutcomeSuccess)
		}
	})
}

func TestASuspectRunsAloneAfterAnEngineThatEndedUnsettled(t *testing.T) {
	onBroker(t, drivertest.Republishing(), func(s *stage) {
		gate := core.NewGate()
		var a alone
		hs := map[string]core.Handler{"suspect": a.watch(true, work(time.Second)), "job": a.watch(false, work(time.Second))}
		ended := newStage(s.T, drivertest.Republishing())
		ended.m.Inject(drivertest.Fault{Op: drivertest.OpSettle, Err: errBusy})
		ended.pushJobs(4, "job", "job")
		e := ended.start(hs, func(c *core.EngineConfig) { c.Gate = gate })
		s.pass(2 * time.Second)
		_ = e.drain()
		s.pass(time.Minute) // its settlements are tried once more and are stale

		busy := newStage(s.T, drivertest.Republishing())
		busy.pushJobs(100, "job", "job")
		busy.start(hs, func(c *core.EngineConfig) { c.Gate = gate })
		s.foundTwice("suspect")
		s.start(hs, func(c *core.EngineConfig) { c.Gate = gate })
		s.pass(time.Minute)
		s.want("handlers beside a suspect", int(a.beside.Load()), 0)
		s.wantLast("suspect", core.OutcomeSuccess)
	})
}
