package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/transport/redis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEmbeddedRunsEveryOutcomeAndStopsClean(t *testing.T) {
	t.Parallel()
	for _, mode := range []core.PriorityMode{core.PriorityNone, core.PriorityLevels} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			runEveryOutcome(t, mode)
		})
	}
}

func runEveryOutcome(t *testing.T, mode core.PriorityMode) {
	d, err := New(redis.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := core.Binding{Process: "demo", Queue: "demo", Concurrency: 4, Priority: mode, Logger: slog.New(slog.DiscardHandler)}
	port, err := d.OpenPublisher(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	publisher := core.NewPublisher(port)
	const each = 20
	for i := range each {
		for _, kind := range []string{"ok", "retry", "fail", "discard", "defer"} {
			job, err := core.NewJob(kind, map[string]int{"n": i})
			if err != nil {
				t.Fatal(err)
			}
			if err := job.Meta.Set("priority", core.Priorities()[i%5].String()); err != nil {
				t.Fatal(err)
			}
			if err := publisher.PublishAfter(t.Context(), job, time.Duration(i%2)*20*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}

	registry := core.NewRegistry()
	handle := func(kind string, h core.Handler) {
		if err := registry.Handle(kind, h); err != nil {
			t.Fatal(err)
		}
	}
	handle("ok", func(context.Context, *core.Job) error { return nil })
	handle("fail", func(context.Context, *core.Job) error { return core.Fail(nil) })
	handle("discard", func(context.Context, *core.Job) error { return core.Discard(nil) })
	handle("retry", func(_ context.Context, j *core.Job) error {
		if j.Attempt < 3 {
			return core.RetryAfter(5*time.Millisecond, nil)
		}
		return nil
	})
	handle("defer", func(_ context.Context, j *core.Job) error {
		if j.Meta.Deferred() == 0 {
			return core.DeferAfter(5*time.Millisecond, nil)
		}
		return nil
	})
	view, err := registry.View(nil)
	if err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	outcomes := map[string]int{}
	var left atomic.Int64
	left.Store(5 * each)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	engine, err := core.NewEngine(core.EngineConfig{
		Transport: "dev", Driver: d, Binding: b, Handlers: view, Retry: core.DefaultRetryPolicy(), ShutdownTimeout: 5 * time.Second,
		Listeners: []core.Listener{func(e *core.Event) {
			if e.Kind != core.EventFinished {
				return
			}
			mu.Lock()
			outcomes[fmt.Sprintf("%s %s", e.Type, e.Outcome)]++
			mu.Unlock()
			switch e.Outcome {
			case core.OutcomeSuccess, core.OutcomeDead, core.OutcomeDiscarded:
				if left.Add(-1) == 0 {
					stop()
				}
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := engine.Run(ctx); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"ok success": each, "retry requeued": 2 * each, "retry success": each, "fail dead": each, "discard discarded": each, "defer deferred": each, "defer success": each}
	for k, n := range want {
		if outcomes[k] != n {
			t.Errorf("%s: %d, want %d", k, outcomes[k], n)
		}
	}
	stats, err := d.Inspect(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if *stats.Ready != 0 || *stats.Delayed != 0 || *stats.InFlight != 0 || *stats.Dead != each {
		t.Errorf("left: ready %d, delayed %d, in flight %d, dead %d", *stats.Ready, *stats.Delayed, *stats.InFlight, *stats.Dead)
	}
	if err := publisher.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
