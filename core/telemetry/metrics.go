// Package telemetry turns the core's events into metrics and log lines.
//
// Metrics never carry text from the wire: the label type is the registered type
// or pattern that matched, else "other". Log lines carry a job's id and type,
// never its payload, and URLs in them are masked.
package telemetry

import (
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/goconsumer/consumer/core"
)

// Metrics are the consumer_* metrics of one host, in a registry of their own
// together with those of the Go runtime and the OS process.
type Metrics struct {
	registry *prometheus.Registry
	gauges   *gauges

	jobs               *prometheus.CounterVec
	duration           *prometheus.HistogramVec
	wait               *prometheus.HistogramVec
	delayError         *prometheus.HistogramVec
	settleErrors       *prometheus.CounterVec
	staleSettlements   *prometheus.CounterVec
	redeliveries       *prometheus.CounterVec
	deadLetterOverflow *prometheus.CounterVec
	priorityIgnored    *prometheus.CounterVec
	published          *prometheus.CounterVec

	mu     sync.RWMutex
	series map[seriesKey]*series // found once, since labels cost more than counting
}

type seriesKey struct {
	process string
	jobType string
	outcome core.Outcome
}

// series is what one finished job adds to.
type series struct {
	jobs     prometheus.Counter
	duration prometheus.Observer
}

// NewMetrics makes the metrics.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), gauges: newGauges(), series: map[seriesKey]*series{}}
	m.jobs = m.counter("jobs_total", "Jobs whose outcome is durable.", "type", "outcome")
	m.duration = m.histogram("job_duration_seconds", "Run time of handlers.", prometheus.ExponentialBuckets(0.001, 2.5, 14), "type")
	m.wait = m.histogram("job_wait_seconds", "From a job's creation or due time to its start.", prometheus.ExponentialBuckets(0.001, 4, 12))
	m.delayError = m.histogram("delay_error_seconds", "How late a delayed job became ready.", prometheus.ExponentialBuckets(0.001, 2, 14))
	m.settleErrors = m.counter("settle_errors_total", "Settlements that failed and were tried again.")
	m.staleSettlements = m.counter("stale_settlements_total", "Results dropped because the job was no longer ours.")
	m.redeliveries = m.counter("redeliveries_total", "Jobs found unsettled.", "cause")
	m.deadLetterOverflow = m.counter("dead_letter_overflow_total", "Dead letters dropped by on_full: drop_oldest.")
	m.priorityIgnored = m.counter("priority_ignored_total", "Jobs with a priority on a process that ignores it.")
	m.published = m.counter("published_total", "Jobs stored by this host's publishers.")
	m.registry.MustRegister(m.gauges, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

const namespace = "consumer"

// counter makes a counter with the label process and further ones.
func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, append([]string{"process"}, labels...))
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, append([]string{"process"}, labels...))
	m.registry.MustRegister(h)
	return h
}

// startAtZero makes the series that have no label but the process, so that a
// scrape before the first fault already shows them and rate() sees that fault.
func (m *Metrics) startAtZero(process string) {
	for _, counter := range []*prometheus.CounterVec{m.settleErrors, m.staleSettlements, m.deadLetterOverflow, m.priorityIgnored, m.published} {
		counter.WithLabelValues(process)
	}
	for _, histogram := range []*prometheus.HistogramVec{m.wait, m.delayError} {
		histogram.WithLabelValues(process)
	}
}

// Handler serves the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Listener counts events. It does not block.
func (m *Metrics) Listener() core.Listener { return m.count }

func (m *Metrics) count(e *core.Event) {
	switch e.Kind {
	case core.EventStarted:
		if e.Wait > 0 { // 0: not known
			m.wait.WithLabelValues(e.Process).Observe(e.Wait.Seconds())
		}
	case core.EventFinished:
		s := m.seriesOf(seriesKey{e.Process, e.Type, e.Outcome})
		s.jobs.Inc()
		if e.Cost > 0 { // 0: no handler ran
			s.duration.Observe(e.Cost.Seconds())
		}
	case core.EventDelayLate:
		m.delayError.WithLabelValues(e.Process).Observe(e.Wait.Seconds())
	case core.EventSettleError:
		m.settleErrors.WithLabelValues(e.Process).Inc()
	case core.EventStale:
		m.staleSettlements.WithLabelValues(e.Process).Inc()
	case core.EventRedelivered:
		m.redeliveries.WithLabelValues(e.Process, e.Cause).Add(float64(e.N))
	case core.EventDeadOverflow:
		m.deadLetterOverflow.WithLabelValues(e.Process).Add(float64(e.N))
	case core.EventPriorityIgnored:
		m.priorityIgnored.WithLabelValues(e.Process).Inc()
	case core.EventPublished:
		m.published.WithLabelValues(e.Process).Add(float64(e.N))
	}
}

func (m *Metrics) seriesOf(key seriesKey) *series {
	m.mu.RLock()
	s := m.series[key]
	m.mu.RUnlock()
	if s != nil {
		return s
	}
	jobType := key.jobType
	if jobType == "" {
		jobType = "other"
	}
	s = &series{
		jobs:     m.jobs.WithLabelValues(key.process, jobType, string(key.outcome)),
		duration: m.duration.WithLabelValues(key.process, jobType),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.series[key] = s
	return s
}
