package redis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/internal/testproxy"
)

// ledger counts the runs of each job.
type ledger struct {
	mu   sync.Mutex
	runs map[string]int
}

func (l *ledger) note(id string) (run int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[string]int{}
	}
	l.runs[id]++
	return l.runs[id]
}

func (l *ledger) distinct() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

func (l *ledger) most() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, runs := range l.runs {
		n = max(n, runs)
	}
	return n
}

// worker is an engine over the driver.
type worker struct {
	engine *core.Engine
	stop   context.CancelFunc
	ended  chan error
}

// work starts an engine with one handler for every type. It is stopped with the
// test, unless stopped before.
func (w *world) work(o Options, h core.Handler, listeners ...core.Listener) *worker {
	w.Helper()
	return w.workOn(binding(), o, h, listeners...)
}

func (w *world) workOn(b core.Binding, o Options, h core.Handler, listeners ...core.Listener) *worker {
	w.Helper()
	registry := core.NewRegistry()
	if err := registry.Handle("*", h); err != nil {
		w.Fatal(err)
	}
	view, err := registry.View(nil)
	if err != nil {
		w.Fatal(err)
	}
	engine, err := core.NewEngine(core.EngineConfig{
		Transport: "redis", Driver: w.driver(o), Binding: b, Handlers: view,
		Retry: core.RetryPolicy{MaxAttempts: 5, BaseDelay: 50 * time.Millisecond}, Timeout: time.Minute, ShutdownTimeout: 5 * time.Second,
		Listeners: listeners, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	worker := &worker{engine, stop, make(chan error, 1)}
	go func() { worker.ended <- engine.Run(ctx) }()
	w.Cleanup(func() { worker.end() })
	return worker
}

func (w *worker) end() error {
	w.stop()
	err := <-w.ended
	w.ended <- err
	return err
}

func TestB26_AnIdleWorkerStopsAtOnceAndTakesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.proxied()
	worker := w.work(Options{}, func(context.Context, *core.Job) error { return nil }) // waits of 5 s
	w.blocked(2)
	start := time.Now()
	if err := worker.end(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Fatalf("the stop took %s", took)
	}
	w.push(jobs(5)...)
	// The server hands nothing to a wait that nobody reads.
	if info := w.raw.InfoMap(t.Context(), "clients").Item("Clients", "blocked_clients"); info != "0" {
		t.Fatalf("%s clients still wait", info)
	}
	if len(w.list(w.keys.ready)) != 5 || len(w.processing()) != 0 {
		t.Fatal("jobs were taken after the stop")
	}
}

func TestB26_JobsWhoseMoveHadNoReplyRunWithoutARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.proxied()
	var runs ledger
	w.work(quick, func(_ context.Context, j *core.Job) error {
		runs.note(j.ID)
		return nil
	})
	for i := range 100 {
		w.eventually("the worker waits", func() bool {
			return w.raw.InfoMap(t.Context(), "clients").Item("Clients", "blocked_clients") == "2"
		})
		lost := make(chan struct{})
		id := fmt.Sprintf("j%03d", i)
		// The reply to the wait that is under way: the one chunk with the job.
		p.Filter(cutAt(id, lost))
		w.push(job(id))
		<-lost
		p.Filter(nil)
	}
	w.eventually("all have run", func() bool { return runs.distinct() == 100 })
	w.eventually("nothing is left", func() bool { return len(w.processing()) == 0 && len(w.list(w.keys.ready)) == 0 })
	if most := runs.most(); most > 2 {
		t.Fatalf("a job ran %d times", most)
	}
}

// cutAt cuts the connection on which the server sends text, once.
func cutAt(text string, done chan<- struct{}) func(testproxy.Chunk) testproxy.Action {
	var once sync.Once
	return func(c testproxy.Chunk) (action testproxy.Action) {
		if c.Direction == testproxy.ToClient && bytes.Contains(c.Bytes, []byte(text)) {
			once.Do(func() {
				action = testproxy.Cut
				close(done)
			})
		}
		return action
	}
}

func TestB29_FlushedScriptsAreLoadedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs ledger
	worker := w.work(quick, func(_ context.Context, j *core.Job) error {
		if runs.note(j.ID) == 1 && strings.HasPrefix(j.ID, "j") {
			return core.RetryAfter(500*time.Millisecond, nil)
		}
		return nil
	})
	w.push(jobs(20)...)
	w.eventually("20 jobs wait for their second run", func() bool { return w.delayed() == 20 })
	if err := w.raw.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	flushed := time.Now()
	for i := range 200 { // steady traffic
		w.push(job(fmt.Sprintf("steady%d", i)))
	}
	w.eventually("all have run", func() bool {
		return runs.distinct() == 220 && w.delayed() == 0 && len(w.list(w.keys.ready)) == 0 && len(w.processing()) == 0
	})
	if took := time.Since(flushed); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
	if err := w.raw.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := worker.end(); err != nil { // the release script is unknown now
		t.Fatal(err)
	}
	w.wantKeys()
}

func TestRedisRestartIsSurvived(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--appendonly", "yes", "--appendfsync", "always")
	var runs ledger
	worker := w.work(quick, func(_ context.Context, j *core.Job) error {
		if runs.note(j.ID) == 1 {
			return core.RetryAfter(200*time.Millisecond, nil)
		}
		return nil
	})
	w.push(jobs(500)...)
	w.eventually("half have begun", func() bool { return runs.distinct() > 250 })
	w.server.Kill()
	w.eventually("it says that it is not ready", func() bool { return !worker.engine.Status().Ready })
	if reason := worker.engine.Status().Reason; !contains(reason, queue, w.server.Addr) {
		t.Errorf("reason: %s", reason)
	}
	w.server.Restart()
	w.eventually("it is ready again", func() bool { return worker.engine.Status().Ready })
	w.eventually("all have run", func() bool {
		return runs.distinct() == 500 && w.delayed() == 0 && len(w.list(w.keys.ready)) == 0 && len(w.processing()) == 0
	})
	if err := worker.end(); err != nil {
		t.Fatal(err)
	}
	w.wantKeys()
}

func TestAJobThatLosesItsPlaceIsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cause := make(chan error, 1)
	var runs ledger
	w.work(quick, func(ctx context.Context, j *core.Job) error {
		if runs.note(j.ID) == 1 {
			<-ctx.Done()
			cause <- context.Cause(ctx)
		}
		return nil
	})
	w.push(job("a"))
	w.eventually("it runs", func() bool { return runs.distinct() == 1 })
	// Somebody takes this consumer for dead.
	id := w.raw.ZRange(t.Context(), w.keys.consumers, 0, 0).Val()[0]
	w.raw.ZRem(t.Context(), w.keys.consumers, id)
	if err := <-cause; !errors.Is(err, core.ErrLost) {
		t.Fatalf("cause: %v", err)
	}
	w.eventually("it runs again and is done", func() bool { return runs.most() == 2 && len(w.processing()) == 0 })
}

func TestAnIdleSourceCostsLittle(t *testing.T) {
	t.Parallel()
	for _, mode := range []core.PriorityMode{core.PriorityNone, core.PriorityLevels} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s, _ := w.open(Options{}, func(b *core.Binding) { b.Priority = mode })
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			before := w.commands()
			if ds, err := s.Receive(ctx, 10); len(ds) != 0 || err != nil {
				t.Fatalf("got %d jobs, %v", len(ds), err)
			}
			calls := w.commands() - before
			t.Logf("%d commands in 5 s, in scripts too", calls)
			if calls > 50 {
				t.Fatalf("%d commands in 5 s", calls)
			}
		})
	}
}
