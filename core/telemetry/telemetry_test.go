package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape returns the lines of our own metrics.
func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 {
		t.Fatalf("scrape: %d %s", answer.Code, answer.Body)
	}
	var own []string
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "consumer_") {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}

func TestEveryEventIsCountedUnderItsName(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	listen := m.Listener()
	job := &core.Job{ID: "job_1", Type: "from the wire"}
	for _, e := range []core.Event{
		{Kind: core.EventStarted, Job: job, Type: "order.*", Wait: 2 * time.Second},
		{Kind: core.EventFinished, Job: job, Type: "order.*", Outcome: core.OutcomeSuccess, Cost: 20 * time.Millisecond},
		{Kind: core.EventFinished, Job: job, Type: "order.*", Outcome: core.OutcomeSuccess, Cost: 20 * time.Millisecond},
		{Kind: core.EventFinished, Job: job, Type: "order.*", Outcome: core.OutcomeRequeued, Cost: 20 * time.Millisecond},
		{Kind: core.EventFinished, Type: "other", Outcome: core.OutcomeDead},
		{Kind: core.EventFinished, Outcome: core.OutcomeDiscarded},
		{Kind: core.EventDelayLate, Wait: 3 * time.Millisecond},
		{Kind: core.EventSettleError, N: 3},
		{Kind: core.EventStale, Job: job},
		{Kind: core.EventRedelivered, Cause: "orphan", N: 4},
		{Kind: core.EventDeadOverflow, N: 2},
		{Kind: core.EventPriorityIgnored, Job: job},
		{Kind: core.EventPublished, N: 7},
	} {
		e.Process = "p"
		listen(&e)
	}
	got := scrape(t, m)
	for _, want := range []string{
		`consumer_jobs_total{outcome="success",process="p",type="order.*"} 2`,
		`consumer_jobs_total{outcome="requeued",process="p",type="order.*"} 1`,
		`consumer_jobs_total{outcome="dead",process="p",type="other"} 1`,
		`consumer_jobs_total{outcome="discarded",process="p",type="other"} 1`,
		`consumer_job_duration_seconds_count{process="p",type="order.*"} 3`,
		`consumer_job_wait_seconds_sum{process="p"} 2`,
		`consumer_delay_error_seconds_count{process="p"} 1`,
		`consumer_settle_errors_total{process="p"} 1`,
		`consumer_stale_settlements_total{process="p"} 1`,
		`consumer_redeliveries_total{cause="orphan",process="p"} 4`,
		`consumer_dead_letter_overflow_total{process="p"} 2`,
		`consumer_priority_ignored_total{process="p"} 1`,
		`consumer_published_total{process="p"} 7`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
	if strings.Contains(got, "wire") {
		t.Errorf("text from the wire became a label:\n%s", got)
	}
}

func TestProcessGaugesShowWhatTheHostSays(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.WatchProcesses(func() []telemetry.ProcessSample {
		return []telemetry.ProcessSample{{Process: "a", Up: true, Inflight: 3, Stuck: 1, Restarts: 2}, {Process: "b"}}
	})
	got := scrape(t, m)
	for _, want := range []string{
		`consumer_process_up{process="a"} 1`, `consumer_process_up{process="b"} 0`,
		`consumer_inflight{process="a"} 3`, `consumer_handlers_stuck{process="a"} 1`,
		`consumer_process_restarts_total{process="a"} 2`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %s in\n%s", want, got)
		}
	}
}

func TestB44_APanicInAMetricsCallbackHurtsNobody(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.WatchProcesses(func() []telemetry.ProcessSample { panic("boom") })
	m.WatchQueue("p", func(context.Context) (core.QueueStats, error) { panic("boom") })
	m.Listener()(&core.Event{Kind: core.EventStale, Process: "p"})
	if got := scrape(t, m); !strings.Contains(got, `consumer_stale_settlements_total{process="p"} 1`) {
		t.Errorf("the other metrics are gone:\n%s", got)
	}
}

func TestCountersOfFaultsAreThereBeforeTheFirstFault(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.WatchQueue("p", func(context.Context) (core.QueueStats, error) { return core.QueueStats{}, nil })
	got := scrape(t, m)
	for _, name := range []string{
		"settle_errors_total", "stale_settlements_total", "dead_letter_overflow_total", "priority_ignored_total",
		"published_total", "job_wait_seconds_count", "delay_error_seconds_count",
	} {
		if !strings.Contains(got, "consumer_"+name+`{process="p"} 0`) {
			t.Errorf("there is no %s:\n%s", name, got)
		}
	}
}

func TestAQueueThatIsNotWatchedAnyMoreIsNotShown(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	ready := int64(5)
	for _, process := range []string{"p", "q"} {
		m.WatchQueue(process, func(context.Context) (core.QueueStats, error) { return core.QueueStats{Ready: &ready}, nil })
	}
	m.UnwatchQueue("p")
	if got := scrape(t, m); strings.Contains(got, `consumer_queue_ready{process="p"}`) || !strings.Contains(got, `consumer_queue_ready{process="q"} 5`) {
		t.Errorf("got\n%s", got)
	}
}

func TestABrokerIsAskedSeldomAndNeverHoldsAScrapeUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := telemetry.NewMetrics()
		var asked atomic.Int32
		var slow, broken atomic.Bool
		ready, dead := int64(5), int64(2)
		m.WatchQueue("p", func(ctx context.Context) (core.QueueStats, error) {
			asked.Add(1)
			if slow.Load() {
				<-ctx.Done()
				return core.QueueStats{}, ctx.Err()
			}
			if broken.Load() {
				return core.QueueStats{}, errors.New("down")
			}
			return core.QueueStats{Ready: &ready, Dead: &dead}, nil
		})
		for range 10 {
			got := scrape(t, m)
			if !strings.Contains(got, `consumer_queue_ready{process="p"} 5`) || !strings.Contains(got, `consumer_queue_dead{process="p"} 2`) {
				t.Errorf("got\n%s", got)
			}
			if strings.Contains(got, "kafka_lag") || strings.Contains(got, "queue_oldest") {
				t.Errorf("the broker did not tell this:\n%s", got)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times at once", n)
		}

		slow.Store(true)
		time.Sleep(10 * time.Second)
		begin := time.Now()
		if got := scrape(t, m); !strings.Contains(got, `consumer_queue_ready{process="p"} 5`) {
			t.Errorf("the last answer is gone:\n%s", got)
		}
		if d := time.Since(begin); d != time.Second {
			t.Errorf("a scrape took %v", d)
		}
		time.Sleep(10 * time.Second) // the question under way times out

		slow.Store(false)
		broken.Store(true)
		time.Sleep(30 * time.Second)
		if got := scrape(t, m); strings.Contains(got, "queue_ready") {
			t.Errorf("an answer of a minute ago is shown:\n%s", got)
		}
	})
}

// logged runs events through a listener and returns the lines.
func logged(t *testing.T, logSuccess func(string) bool, events ...core.Event) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	listen := telemetry.LogListener(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})), logSuccess)
	for _, e := range events {
		e.Process, e.Transport, e.Queue = "p", "redis", "orders"
		listen(&e)
	}
	var lines []map[string]any
	for line := range strings.Lines(out.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		delete(fields, "time")
		lines = append(lines, fields)
	}
	return lines
}

func TestEachOutcomeIsALineWithItsLevelAndFields(t *testing.T) {
	t.Parallel()
	job := &core.Job{ID: "job_1", Type: "order.paid", Attempt: 2, Payload: json.RawMessage(`{"card":"hush-hush"}`)}
	cases := map[string]struct {
		event core.Event
		want  string
	}{
		"success": {core.Event{Kind: core.EventFinished, Job: job, Outcome: core.OutcomeSuccess, Cost: 1500 * time.Microsecond},
			`{"level":"DEBUG","msg":"job.done","outcome":"success","cost_ms":1.5}`},
		"retry": {core.Event{Kind: core.EventFinished, Job: job, Outcome: core.OutcomeRequeued, Next: 3, Delay: time.Second, ErrText: "later"},
			`{"level":"WARN","msg":"job.retry","outcome":"requeued","cost_ms":0,"next_attempt":3,"delay_ms":1000,"error":"later"}`},
		"defer": {core.Event{Kind: core.EventFinished, Job: job, Outcome: core.OutcomeDeferred, Next: 2, Delay: time.Second},
			`{"level":"INFO","msg":"job.deferred","outcome":"deferred","cost_ms":0,"next_attempt":2,"delay_ms":1000}`},
		"dead": {core.Event{Kind: core.EventFinished, Job: job, Outcome: core.OutcomeDead, Reason: "failed", ErrText: "dial redis://:hush-hush@h:1"},
			`{"level":"ERROR","msg":"job.dead","outcome":"dead","cost_ms":0,"reason":"failed","error":"dial redis://:***@h:1"}`},
		"expired": {core.Event{Kind: core.EventFinished, Job: job, Outcome: core.OutcomeDiscarded, Reason: "expired"},
			`{"level":"INFO","msg":"job.discarded","outcome":"discarded","cost_ms":0,"reason":"expired"}`},
		"released": {core.Event{Kind: core.EventFinished, Job: job, Outcome: core.OutcomeReleased},
			`{"level":"INFO","msg":"job.released","outcome":"released","cost_ms":0}`},
		"timeout": {core.Event{Kind: core.EventTimedOut, Job: job, Err: errors.New("timed out after 2s")},
			`{"level":"WARN","msg":"job.timeout","error":"timed out after 2s"}`},
		"stuck": {core.Event{Kind: core.EventStuck, Job: job, Stack: []byte("goroutine 7")},
			`{"level":"ERROR","msg":"job.stuck","stack":"goroutine 7"}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := map[string]any{
				"process": "p", "transport": "redis", "queue": "orders",
				"jobId": "job_1", "jobType": "order.paid", "attempt": 2.0,
			}
			if err := json.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			lines := logged(t, nil, c.event)
			if len(lines) != 1 {
				t.Fatalf("%d lines", len(lines))
			}
			got, _ := json.Marshal(lines[0])
			wanted, _ := json.Marshal(want)
			if !bytes.Equal(got, wanted) {
				t.Errorf("got  %s\nwant %s", got, wanted)
			}
		})
	}
}

func TestLogSuccessRaisesTheLineOfItsProcess(t *testing.T) {
	t.Parallel()
	lines := logged(t, func(process string) bool { return process == "p" },
		core.Event{Kind: core.EventFinished, Job: &core.Job{}, Outcome: core.OutcomeSuccess})
	if lines[0]["level"] != "INFO" {
		t.Errorf("got %v", lines[0])
	}
}

func TestMalformedInputIsALineWithoutAJob(t *testing.T) {
	t.Parallel()
	lines := logged(t, nil, core.Event{Kind: core.EventFinished, Outcome: core.OutcomeDead, Reason: "malformed", ErrText: "no jobType"})
	if _, has := lines[0]["jobId"]; has || lines[0]["reason"] != "malformed" || lines[0]["msg"] != "job.dead" {
		t.Errorf("got %v", lines[0])
	}
}

func TestAStatusIsALineWithItsReasonMasked(t *testing.T) {
	t.Parallel()
	lines := logged(t, nil,
		core.Event{Kind: core.EventStatus, Status: core.Status{Ready: true}},
		core.Event{Kind: core.EventStatus, Status: core.Status{Ready: true, Paused: true}},
		core.Event{Kind: core.EventStatus, Status: core.Status{Reason: "dial redis://:hush-hush@h:1: refused"}})
	if lines[0]["msg"] != "process.ready" || lines[1]["msg"] != "process.paused" || lines[2]["msg"] != "process.not_ready" ||
		lines[2]["reason"] != "dial redis://:***@h:1: refused" {
		t.Errorf("got %v", lines)
	}
}
