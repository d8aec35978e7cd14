package telemetry_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/telemetry"
)

// BenchmarkListeners is what metrics and logs cost a job that succeeds.
func BenchmarkListeners(b *testing.B) {
	metrics := telemetry.NewMetrics().Listener()
	logs := telemetry.LogListener(slog.New(slog.DiscardHandler), nil)
	job := &core.Job{ID: "job_1", Type: "order.paid", Attempt: 1}
	started := &core.Event{Kind: core.EventStarted, Process: "p", Job: job, Type: "order.*", Wait: time.Second}
	finished := &core.Event{Kind: core.EventFinished, Process: "p", Job: job, Type: "order.*", Outcome: core.OutcomeSuccess, Cost: time.Millisecond}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			for _, e := range []*core.Event{started, finished} {
				metrics(e)
				logs(e)
			}
		}
	})
}
