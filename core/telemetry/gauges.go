package telemetry

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/goconsumer/consumer/core"
)

const (
	inspectEvery   = 5 * time.Second  // a broker is asked at most so often
	inspectTimeout = 5 * time.Second  // one question
	scrapeWait     = time.Second      // a scrape waits so long for new answers
	staleAfter     = 30 * time.Second // an older answer is not shown
)

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
func (m *Metrics) WatchProcesses(fn func() []ProcessSample) {
	m.gauges.mu.Lock()
	defer m.gauges.mu.Unlock()
	m.gauges.processes = fn
}

// WatchQueue adds the queue of a process. inspect asks the broker; it is called
// at most once in five seconds, and a scrape waits at most a second for it and
// shows the last answer (at most 30 s old, else nothing). The process's counters
// are there from then on, at zero.
func (m *Metrics) WatchQueue(process string, inspect func(ctx context.Context) (core.QueueStats, error)) {
	m.startAtZero(process)
	m.gauges.mu.Lock()
	defer m.gauges.mu.Unlock()
	m.gauges.queues = append(m.gauges.queues, &queue{process: process, inspect: inspect})
}

// UnwatchQueue undoes WatchQueue.
func (m *Metrics) UnwatchQueue(process string) {
	m.gauges.mu.Lock()
	defer m.gauges.mu.Unlock()
	// A copy: a scrape may be reading the slice.
	m.gauges.queues = slices.DeleteFunc(slices.Clone(m.gauges.queues), func(q *queue) bool { return q.process == process })
}

// gauges collects what is asked for rather than counted.
type gauges struct {
	up, restarts, inflight, stuck             *prometheus.Desc
	ready, delayed, dead, oldest, lag, queued *prometheus.Desc

	mu        sync.Mutex
	processes func() []ProcessSample
	queues    []*queue
}

func newGauges() *gauges {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, []string{"process"}, nil)
	}
	return &gauges{
		up:       desc("process_up", "1 when the process is subscribed and fetching, or paused."),
		restarts: desc("process_restarts_total", "Restarts after crashes."),
		inflight: desc("inflight", "Handlers that run now."),
		stuck:    desc("handlers_stuck", "Handlers that ignored their cancellation and have not returned."),
		ready:    desc("queue_ready", "Jobs waiting to run, as the broker tells."),
		delayed:  desc("queue_delayed", "Jobs waiting to become due."),
		dead:     desc("queue_dead", "Dead letters."),
		oldest:   desc("queue_oldest_seconds", "Age of the oldest ready job."),
		lag:      desc("kafka_lag", "Records behind the end of the topic."),
		queued:   desc("queue_in_flight", "Jobs taken by consumers and not settled, as the broker tells."),
	}
}

// Describe makes this an unchecked collector: what it has depends on brokers.
func (g *gauges) Describe(chan<- *prometheus.Desc) {}

// Collect runs in a goroutine of the Prometheus library, where a panic of a
// callback would end the program.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	g.mu.Lock()
	processes, queues := g.processes, g.queues
	g.mu.Unlock()
	g.collectProcesses(processes, out)
	g.collectQueues(queues, out)
}

func (g *gauges) collectProcesses(processes func() []ProcessSample, out chan<- prometheus.Metric) {
	defer func() { _ = recover() }()
	if processes == nil {
		return
	}
	for _, s := range processes() {
		up := 0.0
		if s.Up {
			up = 1
		}
		out <- prometheus.MustNewConstMetric(g.up, prometheus.GaugeValue, up, s.Process)
		out <- prometheus.MustNewConstMetric(g.restarts, prometheus.CounterValue, float64(s.Restarts), s.Process)
		out <- prometheus.MustNewConstMetric(g.inflight, prometheus.GaugeValue, float64(s.Inflight), s.Process)
		out <- prometheus.MustNewConstMetric(g.stuck, prometheus.GaugeValue, float64(s.Stuck), s.Process)
	}
}

func (g *gauges) collectQueues(queues []*queue, out chan<- prometheus.Metric) {
	deadline := time.After(scrapeWait)
	for _, q := range queues {
		q.refresh()
	}
	for _, q := range queues {
		stats, ok := q.read(deadline)
		if !ok {
			continue
		}
		for desc, value := range map[*prometheus.Desc]*int64{
			g.ready: stats.Ready, g.delayed: stats.Delayed, g.queued: stats.InFlight, g.dead: stats.Dead, g.lag: stats.Lag,
		} {
			if value != nil {
				out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(*value), q.process)
			}
		}
		if stats.OldestSeconds != nil {
			out <- prometheus.MustNewConstMetric(g.oldest, prometheus.GaugeValue, *stats.OldestSeconds, q.process)
		}
	}
}

// queue remembers a broker's last answer.
type queue struct {
	process string
	inspect func(ctx context.Context) (core.QueueStats, error)

	mu       sync.Mutex
	asked    time.Time
	asking   chan struct{} // closed when the question under way is over; nil = none
	stats    core.QueueStats
	answered time.Time
}

// refresh asks the broker unless that was done a moment ago.
func (q *queue) refresh() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asking != nil || time.Since(q.asked) < inspectEvery {
		return
	}
	q.asked = time.Now()
	done := make(chan struct{})
	q.asking = done
	go func() { // ends with inspectTimeout
		defer close(done)
		stats, ok := q.ask()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.asking = nil
		if ok {
			q.stats, q.answered = stats, time.Now()
		}
	}()
}

func (q *queue) ask() (stats core.QueueStats, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	stats, err := q.inspect(ctx)
	return stats, err == nil
}

// read waits for a question under way until deadline and returns the last
// answer, if it is not too old.
func (q *queue) read(deadline <-chan time.Time) (core.QueueStats, bool) {
	q.mu.Lock()
	asking := q.asking
	q.mu.Unlock()
	if asking != nil {
		select {
		case <-asking:
		case <-deadline:
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stats, !q.answered.IsZero() && time.Since(q.answered) < staleAfter
}
