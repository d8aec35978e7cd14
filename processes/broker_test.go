package processes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
	"github.com/goconsumer/consumer/processes"
)

// brokers are brokers in memory, by the host of their URL: memory://name.
type brokers map[string]*drivertest.Memory

func (b brokers) options() processes.Options {
	opts := processes.Options{
		Logger: slog.New(slog.DiscardHandler),
		Drivers: map[string]processes.DriverFunc{"memory": func(e processes.Endpoint) (core.Driver, error) {
			return b[strings.TrimPrefix(e.URL, "memory://")].Open(), nil
		}},
	}
	for name := range b {
		opts.Endpoints = append(opts.Endpoints, processes.Endpoint{Name: name, URL: "memory://" + name})
	}
	return opts
}

// ledger notes how often each job ran.
type ledger struct {
	mu   sync.Mutex
	runs map[string]int
}

func (l *ledger) registry(t *testing.T) *core.Registry {
	t.Helper()
	l.runs = map[string]int{}
	registry := core.NewRegistry()
	err := registry.Handle("*", func(_ context.Context, job *core.Job) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.runs[job.ID]++
		return nil
	})
	if err != nil {
		t.Fatalf("register: %v", err)
	}
	return registry
}

func (l *ledger) distinct() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

func push(m *drivertest.Memory, queue string, first, n int) {
	for i := first; i < first+n; i++ {
		m.Push(queue, fmt.Appendf(nil, `{"jobId":"job_%d","jobType":"t","payload":{}}`, i))
	}
}

func start(t *testing.T, m *processes.Manager) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

func mustNew(t *testing.T, opts processes.Options, specs ...processes.Spec) *processes.Manager {
	t.Helper()
	m, err := processes.New(specs, opts)
	if err != nil {
		t.Fatalf("new: %v", err)
	}
	return m
}

// within waits until ok holds, at most limit.
func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for begin := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) { // virtual time
		if time.Since(begin) > limit {
			t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

func ready(m *processes.Manager, process string) (bool, string) {
	for _, s := range m.Status() {
		if s.Name == process {
			return s.Ready, s.Reason
		}
	}
	return false, ""
}

func TestB53_ReadinessTellsTheTruthAboutABrokerThatGoesAway(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(m *drivertest.Memory) (end func()){
		"the broker is down": func(m *drivertest.Memory) func() { m.Down(); return m.Up },
		"only the subscription is broken": func(m *drivertest.Memory) func() {
			return m.Inject(drivertest.Fault{Op: drivertest.OpReceive, Err: errors.New("queue was deleted")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := brokers{"bad": drivertest.NewMemory(drivertest.Republishing()), "good": drivertest.NewMemory(drivertest.Republishing())}
				var l ledger
				opts := b.options()
				opts.Registry = l.registry(t)
				m := mustNew(t, opts, processes.Spec{Name: "a", Transport: "bad", Queue: "orders"}, processes.Spec{Name: "b", Transport: "good", Queue: "mails"})
				if is, _ := ready(m, "a"); is {
					t.Error("ready before it runs")
				}
				stop := start(t, m)
				within(t, time.Second, "ready", func() bool { is, _ := ready(m, "a"); return is })

				push(b["bad"], "orders", 0, 10)
				within(t, time.Second, "ten jobs", func() bool { return l.distinct() == 10 })
				end := fault(b["bad"])
				push(b["bad"], "orders", 10, 1) // an idle wait ends at the next job
				within(t, time.Second, "not ready", func() bool { is, _ := ready(m, "a"); return !is })
				if _, reason := ready(m, "a"); !strings.Contains(reason, "orders") {
					t.Errorf("the reason does not name the queue: %q", reason)
				}
				push(b["good"], "mails", 100, 10)
				within(t, time.Second, "the other process works", func() bool { return l.distinct() >= 20 })
				if is, reason := ready(m, "b"); !is {
					t.Errorf("the other process is not ready: %s", reason)
				}
				time.Sleep(5 * time.Second)
				end()
				within(t, 10*time.Second, "ready again", func() bool { is, _ := ready(m, "a"); return is })
				push(b["bad"], "orders", 11, 10)
				within(t, time.Second, "all jobs", func() bool { return l.distinct() == 31 })
				if err := stop(); err != nil {
					t.Errorf("stop: %v", err)
				}
			})
		})
	}
}

func TestAProcessThatLosesItsBrokerIsRetryingAndSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := brokers{"m": drivertest.NewMemory(drivertest.Republishing())}
		var mu sync.Mutex
		var heard []core.Status
		opts := b.options()
		opts.Listeners = []core.Listener{func(e *core.Event) {
			if e.Kind == core.EventStatus {
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, e.Status)
			}
		}}
		m := mustNew(t, opts, processes.Spec{Name: "p", Transport: "m", Queue: "q"})
		stop := start(t, m)
		time.Sleep(time.Second)
		b["m"].Down()
		time.Sleep(time.Second)
		if s := m.Status()[0]; s.State != processes.StateRetrying {
			t.Errorf("it is %+v", s)
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(heard) < 2 || !heard[0].Ready || heard[1].Ready || heard[1].Reason == "" {
			t.Errorf("heard %+v", heard)
		}
	})
}

func TestB53_ABrokerThatStaysAwayEndsTheHostWhenItGivesUp(t *testing.T) {
	t.Parallel()
	for name, upFirst := range map[string]bool{"from the start": false, "after it worked": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := brokers{"m": drivertest.NewMemory(drivertest.Republishing())}
				var l ledger
				opts := b.options()
				opts.Registry, opts.GiveUpAfter = l.registry(t), 10*time.Second
				m := mustNew(t, opts, processes.Spec{Name: "p", Transport: "m", Queue: "q"})
				if !upFirst {
					b["m"].Down()
				}
				done := make(chan error, 1)
				go func() { done <- m.Run(t.Context()) }()
				if upFirst {
					time.Sleep(time.Minute)
					b["m"].Down()
				}
				begin := time.Now()
				err := <-done
				if code := processes.ExitCode(err); code != processes.ExitUnreachable {
					t.Errorf("exit code %d (%v), want %d", code, err, processes.ExitUnreachable)
				}
				if d := time.Since(begin); d < 9*time.Second || d > 12*time.Second {
					t.Errorf("gave up after %v", d)
				}
			})
		})
	}
}

func TestAStopFinishesWhatRunsAndReleasesTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := brokers{"m": drivertest.NewMemory(drivertest.Republishing())}
		registry := core.NewRegistry()
		var ran sync.Map
		err := registry.Handle("*", func(ctx context.Context, job *core.Job) error {
			limit := 2 * time.Second
			if job.ID == "job_0" {
				limit = time.Hour
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(limit):
				ran.Store(job.ID, true)
				return nil
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		opts := b.options()
		opts.Registry = registry
		m := mustNew(t, opts, processes.Spec{Name: "p", Transport: "m", Queue: "q", Concurrency: 3, HandlerTimeout: -1, ShutdownTimeout: 10 * time.Second})
		push(b["m"], "q", 0, 20)
		stop := start(t, m)
		time.Sleep(time.Second)
		begin := time.Now()
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if d := time.Since(begin); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("the stop took %v, want the shutdown timeout", d)
		}
		done := 0
		ran.Range(func(any, any) bool { done++; return true })
		held := b["m"].Held("q")
		if done != 2 || held.Waiting() != 18 || len(held.InFlight) != 0 {
			t.Errorf("%d ran, %d are held, %d in flight; want 2, 18, 0", done, held.Waiting(), len(held.InFlight))
		}
		for _, body := range held.Ready {
			if !strings.Contains(string(body), `"job_`) || strings.Contains(string(body), `"attempt":2`) {
				t.Errorf("a released job was charged: %s", body)
			}
		}
	})
}

func TestHandlersPublishThroughTheirProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := brokers{"m": drivertest.NewMemory(drivertest.Republishing())}
		registry := core.NewRegistry()
		children := make(chan string, 1)
		err := errors.Join(
			registry.Handle("parent", func(ctx context.Context, _ *core.Job) error {
				child, err := core.NewJob("child", nil)
				if err != nil {
					return err
				}
				return core.PublisherFrom(ctx).Publish(ctx, child)
			}),
			registry.Handle("child", func(_ context.Context, job *core.Job) error {
				children <- job.ID
				return nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		opts := b.options()
		opts.Registry = registry
		published := make(chan core.Event, 10)
		opts.Listeners = []core.Listener{func(e *core.Event) {
			if e.Kind == core.EventPublished {
				published <- *e
			}
		}}
		m := mustNew(t, opts, processes.Spec{Name: "p", Transport: "m", Queue: "q"})
		b["m"].Push("q", []byte(`{"jobId":"job_1","jobType":"parent","payload":{}}`))
		stop := start(t, m)
		if id := <-children; id == "" {
			t.Error("the child has no id")
		}
		if e := <-published; e.Process != "p" || e.Transport != "m" || e.Queue != "q" || e.N != 1 {
			t.Errorf("published event %+v", e)
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestWhatTheTransportCannotGiveStopsTheProcessWithASentence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := brokers{"m": drivertest.NewMemory(drivertest.Republishing())}
		m := mustNew(t, b.options(), processes.Spec{Name: "p", Transport: "m", Queue: "q", Ordering: core.OrderingKey})
		err := m.Run(t.Context())
		if processes.ExitCode(err) != processes.ExitConfig || !strings.Contains(err.Error(), "order") || strings.Count(err.Error(), "process p") != 1 {
			t.Errorf("got %v", err)
		}
	})
}

func TestAWrongPolicyStopsTheProcessInsteadOfBeingTriedForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := brokers{"m": drivertest.NewMemory(drivertest.Republishing())}
		m := mustNew(t, b.options(), processes.Spec{Name: "p", Transport: "m", Queue: "q", Retry: core.RetryPolicy{Multiplier: -1}})
		if err := m.Run(t.Context()); processes.ExitCode(err) != processes.ExitConfig {
			t.Errorf("got %v", err)
		}
	})
}

func TestTooManyStuckHandlersStopTheirProcessAndAskForARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := brokers{"m": drivertest.NewMemory(drivertest.Republishing())}
		registry := core.NewRegistry()
		let := make(chan struct{})
		err := errors.Join(
			registry.Handle("t", func(context.Context, *core.Job) error { <-let; return nil }),
			registry.Handle("good", func(context.Context, *core.Job) error { return nil }))
		if err != nil {
			t.Fatal(err)
		}
		opts := b.options()
		opts.Registry = registry
		m := mustNew(t, opts,
			processes.Spec{Name: "stuck", Transport: "m", Queue: "q", Concurrency: 2, MaxStuck: 3, HandlerTimeout: time.Second, Types: []string{"t"}},
			processes.Spec{Name: "good", Transport: "m", Queue: "other", Types: []string{"good"}})
		push(b["m"], "q", 0, 10)
		stop := start(t, m)
		within(t, time.Minute, "failed", func() bool { return m.Status()[0].State == processes.StateFailed })
		if s := m.Status()[0]; !s.NeedsRestart || s.Ready || !strings.Contains(s.Reason, "max_stuck") {
			t.Errorf("it is %+v", s)
		}
		if s := m.Status()[1]; !s.Ready || s.NeedsRestart {
			t.Errorf("the other is %+v", s)
		}
		if err := stop(); processes.ExitCode(err) != processes.ExitFailed || !errors.Is(err, core.ErrTooManyStuck) {
			t.Errorf("stop: %v", err)
		}
		close(let)
	})
}

// sink keeps dead letters by id.
type sink struct {
	mu   sync.Mutex
	kept []string
}

func (s *sink) Store(_ context.Context, records []*core.DeadRecord) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		s.kept = append(s.kept, r.Job.ID)
	}
	return nil
}

func TestDeadLettersGoWhereTheProcessSays(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		dead      processes.DeadLetter
		own, sunk int
	}{
		"auto":                        {processes.DeadLetter{}, 2, 0},
		"a list on its own transport": {processes.DeadLetter{Driver: processes.DeadRedisList, Transport: "m"}, 2, 0},
		"a list on another transport": {processes.DeadLetter{Driver: processes.DeadRedisList, Transport: "other"}, 0, 2},
		"the log only":                {processes.DeadLetter{Driver: processes.DeadLogOnly}, 0, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := brokers{"m": drivertest.NewMemory(drivertest.Republishing()), "other": drivertest.NewMemory(drivertest.Republishing())}
				registry := core.NewRegistry()
				if err := registry.Handle("*", func(context.Context, *core.Job) error { return core.Fail(errors.New("no")) }); err != nil {
					t.Fatal(err)
				}
				var elsewhere sink
				opts := b.options()
				opts.Registry = registry
				opts.DeadSink = func(e processes.Endpoint, _ core.Driver, s processes.Spec) (core.DeadSink, error) {
					if e.Name != "other" || s.DeadLetter.Prefix != "job:dead:" {
						t.Errorf("asked for a sink on %s with %+v", e.Name, s.DeadLetter)
					}
					return &elsewhere, nil
				}
				m := mustNew(t, opts, processes.Spec{Name: "p", Transport: "m", Queue: "q", DeadLetter: c.dead})
				push(b["m"], "q", 0, 2)
				stop := start(t, m)
				time.Sleep(time.Second)
				if err := stop(); err != nil {
					t.Errorf("stop: %v", err)
				}
				if held := b["m"].Held("q"); len(held.Dead) != c.own || len(elsewhere.kept) != c.sunk {
					t.Errorf("%d in its own place, %d elsewhere; want %d and %d", len(held.Dead), len(elsewhere.kept), c.own, c.sunk)
				}
			})
		})
	}
}

func TestInspectAsksTheProcesssOwnBroker(t *testing.T) {
	t.Parallel()
	b := brokers{"m": drivertest.NewMemory(drivertest.Republishing())}
	m := mustNew(t, b.options(), processes.Spec{Name: "p", Transport: "m", Queue: "q"})
	push(b["m"], "q", 0, 3)
	stats, err := m.Inspect(t.Context(), "p")
	if err != nil || stats.Ready == nil || *stats.Ready != 3 {
		t.Errorf("got %+v, %v", stats, err)
	}
	_, err = m.Inspect(t.Context(), "none")
	if _, unknown := errors.AsType[*processes.UnknownProcessError](err); !unknown {
		t.Errorf("unknown process: %v", err)
	}
	m.Abort()
	if err := m.Run(t.Context()); err != nil {
		t.Errorf("run: %v", err)
	}
	if _, err := m.Inspect(t.Context(), "p"); !errors.Is(err, core.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
