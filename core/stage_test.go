package core_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
)

// stage is one queue of a broker in memory with engines on it, on the virtual
// clock, and everything that the engines told.
type stage struct {
	*testing.T
	m    *drivertest.Memory
	pub  core.PublishPort
	mu   sync.Mutex
	told []core.Event
}

const queue = "orders"

// onEveryBroker runs a test in a bubble of its own for every shape of broker.
func onEveryBroker(t *testing.T, test func(s *stage)) {
	t.Helper()
	onBrokers(t, drivertest.Shapes(), test)
}

func onBrokers(t *testing.T, shapes []drivertest.Shape, test func(s *stage)) {
	t.Helper()
	t.Parallel()
	for _, shape := range shapes {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(newStage(t, shape)) })
		})
	}
}

// onBroker runs a test on one shape only, where the others make no difference.
func onBroker(t *testing.T, shape drivertest.Shape, test func(s *stage)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newStage(t, shape)) })
}

func newStage(t *testing.T, shape drivertest.Shape) *stage {
	s := &stage{T: t, m: drivertest.NewMemory(shape)}
	pub, err := s.m.Open().OpenPublisher(t.Context(), core.Binding{Queue: queue, Priority: core.PriorityLevels})
	if err != nil {
		t.Fatal(err)
	}
	s.pub = pub
	return s
}

// push stores bodies as a foreign producer does.
func (s *stage) push(bodies ...string) {
	for _, body := range bodies {
		s.m.Push(queue, []byte(body))
	}
}

// envelope is the text of a job with an id and a type.
func envelope(id, jobType string) string {
	return fmt.Sprintf(`{"v":1,"jobId":%q,"jobType":%q,"payload":{},"meta":{},"attempt":1,"maxAttempts":5,"createdAt":1720764000}`, id, jobType)
}

// pushJobs stores n jobs of a type: name-0, name-1, …
func (s *stage) pushJobs(n int, name, jobType string) {
	for i := range n {
		s.push(envelope(fmt.Sprintf("%s-%d", name, i), jobType))
	}
}

// engine is one engine that runs until the test ends.
type engine struct {
	*core.Engine
	s     *stage
	d     *drivertest.MemoryDriver
	stop  context.CancelFunc
	ended chan struct{}
	err   error
}

// registry makes a view of handlers by type.
func (s *stage) registry(hs map[string]core.Handler, mw ...core.Middleware) *core.RegistryView {
	s.Helper()
	reg := core.NewRegistry()
	reg.Use(mw...)
	for pattern, h := range hs {
		if err := reg.Handle(pattern, h); err != nil {
			s.Fatal(err)
		}
	}
	view, err := reg.View(nil)
	if err != nil {
		s.Fatal(err)
	}
	return view
}

// start runs an engine as a process of its own. Retries take 100 ms, without
// jitter; at most three attempts.
func (s *stage) start(hs map[string]core.Handler, adjust ...func(*core.EngineConfig)) *engine {
	s.Helper()
	e := &engine{s: s, d: s.m.Open(), ended: make(chan struct{})}
	cfg := core.EngineConfig{
		Transport: "memory", Driver: e.d, Handlers: s.registry(hs),
		Binding:   core.Binding{Process: "job", Queue: queue, Concurrency: 4, Logger: slog.New(slog.DiscardHandler)},
		Retry:     core.RetryPolicy{Type: core.RetryFixed, MaxAttempts: 3, BaseDelay: 100 * time.Millisecond},
		Listeners: []core.Listener{s.listen},
	}
	for _, f := range adjust {
		f(&cfg)
	}
	var err error
	if e.Engine, err = core.NewEngine(cfg); err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stop = stop
	go func() {
		defer close(e.ended)
		e.err = e.Run(ctx)
	}()
	s.Cleanup(func() {
		e.Abort()
		e.stop()
		<-e.ended
	})
	return e
}

// drain stops softly and returns what Run returned.
func (e *engine) drain() error {
	e.stop()
	<-e.ended
	return e.err
}

// crash lets the whole process vanish.
func (e *engine) crash() {
	e.d.Crash()
	e.Abort()
	<-e.ended
}

func (s *stage) listen(ev *core.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := *ev
	if ev.Job != nil {
		job := *ev.Job
		kept.Job = &job
	}
	s.told = append(s.told, kept)
}

// events lists what was told of one kind.
func (s *stage) events(kind core.EventKind) []core.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.told), func(ev core.Event) bool { return ev.Kind != kind })
}

// outcomes lists how a job's runs ended.
func (s *stage) outcomes(id string) []core.Outcome {
	var out []core.Outcome
	for _, ev := range s.events(core.EventFinished) {
		if ev.Job != nil && ev.Job.ID == id {
			out = append(out, ev.Outcome)
		}
	}
	return out
}

func (s *stage) wantOutcomes(id string, want ...core.Outcome) {
	s.Helper()
	if got := s.outcomes(id); !slices.Equal(got, want) {
		s.Errorf("job %s had outcomes %v, want %v", id, got, want)
	}
}

// dead finds the dead letter of a job.
func (s *stage) dead(id string) core.DeadRecord {
	s.Helper()
	for _, r := range s.m.Held(queue).Dead {
		if r.Job != nil && r.Job.ID == id {
			return r
		}
	}
	s.Fatalf("there is no dead letter of job %s", id)
	return core.DeadRecord{}
}

// pass lets virtual time go by until nothing moves any more.
func (s *stage) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// want compares a number.
func (s *stage) want(what string, got, want int) {
	s.Helper()
	if got != want {
		s.Errorf("%s: %d, want %d", what, got, want)
	}
}

// work is a handler that takes a while and ends early with its context.
func work(d time.Duration) core.Handler {
	return func(ctx context.Context, _ *core.Job) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(d):
			return nil
		}
	}
}

func succeed(context.Context, *core.Job) error { return nil }
