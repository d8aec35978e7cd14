package core

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// memorySource hands out the same body a number of times and settles at once.
type memorySource struct {
	body    []byte
	left    atomic.Int64
	settled atomic.Int64
	all     int64
	done    chan struct{} // closed when all are settled
}

func newMemorySource(n int) *memorySource {
	s := &memorySource{body: []byte(canonical), all: int64(n), done: make(chan struct{})}
	s.left.Store(int64(n))
	return s
}

func (s *memorySource) OpenSource(context.Context, Binding, Notices) (Source, error) { return s, nil }

func (s *memorySource) OpenPublisher(context.Context, Binding) (PublishPort, error) { return nil, nil }

func (s *memorySource) Capabilities() Capabilities { return Capabilities{Delay: SupportNative} }

func (s *memorySource) Receive(ctx context.Context, max int) ([]*Delivery, error) {
	n := min(int64(max), s.left.Load())
	if n == 0 {
		<-ctx.Done()
		return nil, nil
	}
	s.left.Add(-n)
	out := make([]*Delivery, n)
	for i := range out {
		out[i] = &Delivery{Body: s.body}
	}
	return out, nil
}

func (s *memorySource) Settle(batch []Settlement, done func(int, error)) {
	for i := range batch {
		done(i, nil)
	}
	if s.settled.Add(int64(len(batch))) == s.all {
		close(s.done)
	}
}

func (s *memorySource) Stop(context.Context) error  { return nil }
func (s *memorySource) Close(context.Context) error { return nil }

func benchmarkEngine(b *testing.B, source *memorySource, concurrency int) *Engine {
	b.Helper()
	registry := NewRegistry()
	noop := func(context.Context, *Job) error { return nil }
	if err := registry.Handle("order.*", noop); err != nil {
		b.Fatal(err)
	}
	view, err := registry.View(nil)
	if err != nil {
		b.Fatal(err)
	}
	e, err := NewEngine(EngineConfig{
		Driver: source, Binding: Binding{Queue: "bench", Concurrency: concurrency}, Handlers: view, Timeout: 2 * time.Minute,
	})
	if err != nil {
		b.Fatal(err)
	}
	e.source = source
	return e
}

// BenchmarkRunDecide runs one job in a slot, with a time limit, up to its decision.
func BenchmarkRunDecide(b *testing.B) {
	e := benchmarkEngine(b, newMemorySource(0), 1)
	job, err := Decode([]byte(canonical))
	if err != nil {
		b.Fatal(err)
	}
	handler, pattern := e.cfg.Handlers.Lookup(job.Type)
	w := &worker{e: e}
	w.initAlarm()
	defer w.alarm.timer.Stop()
	d := &Delivery{Body: []byte(canonical)}
	b.ReportAllocs()
	for b.Loop() {
		t := &task{d: d, job: job, handler: handler, pattern: pattern}
		t.state.Store(taskRunning)
		if !w.run(t) {
			b.Fatal("the slot ended")
		}
		e.settle.pending = e.settle.pending[:0]
	}
}

// BenchmarkSettle settles decisions in batches; the time is that of one decision.
func BenchmarkSettle(b *testing.B) {
	for _, size := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			e := benchmarkEngine(b, newMemorySource(0), 1)
			e.gate.add(1) // as if a fetch were under way
			batch := make([]*task, size)
			for i := range batch {
				batch[i] = &task{d: &Delivery{Body: []byte(canonical)}, decision: Decision{Verdict: VerdictDone, Outcome: OutcomeSuccess}}
			}
			b.ReportAllocs()
			for n := 0; n < b.N; n += size {
				e.addOnHandLocked(size) // one goroutine: no lock is needed
				e.gate.add(size)
				if !e.settle.flush(batch) {
					b.Fatal("the settler ended")
				}
			}
		})
	}
}

// BenchmarkEngine takes jobs through a whole engine: received, decoded, run in
// slots, decided and settled.
func BenchmarkEngine(b *testing.B) {
	for _, concurrency := range []int{10, 64} {
		b.Run(fmt.Sprintf("c=%d", concurrency), func(b *testing.B) {
			source := newMemorySource(b.N)
			e := benchmarkEngine(b, source, concurrency)
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			b.ReportAllocs()
			b.ResetTimer()
			ended := make(chan error, 1)
			go func() { ended <- e.Run(ctx) }()
			select {
			case <-source.done:
			case err := <-ended:
				b.Fatal("Run ended: ", err)
			}
			b.StopTimer()
			stop()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}
