package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goconsumer/consumer/core"
)

func outcomeCases() []Case {
	var cases []Case
	for _, o := range outcomes() {
		cases = append(cases, Case{Name: "outcome: " + o.name, Exercises: o.exercises, run: o.run})
	}
	return append(cases,
		Case{Name: "attempts are exactly 1, 2, 3", Exercises: []string{"InPlace"}, run: attemptsExact},
		Case{Name: "payload bytes and unknown fields pass through every retry", run: bytesUnchanged},
		Case{Name: "a poison message is delivered once and does not loop", run: noHotLoop},
		Case{Name: "a job that always fails runs no more often than it may", run: alwaysFails},
	)
}

// outcome is one row of the table of results: what a handler does and what
// becomes of the job.
type outcome struct {
	name      string
	exercises []string
	body      string // instead of an envelope
	meta      map[string]any
	jobType   string // default kit.job
	handler   core.Handler
	adjust    func(*core.EngineConfig)
	want      []core.Outcome
	runs      int
	reason    string // of the dead letter; "" = none
	errText   string
}

func outcomes() []outcome {
	return []outcome{
		{name: "success", handler: succeed, want: []core.Outcome{core.OutcomeSuccess}, runs: 1},
		{
			name:    "a retry comes back and succeeds",
			handler: failFirst(1, func() error { return core.Retry(errBusy) }),
			want:    []core.Outcome{core.OutcomeRequeued, core.OutcomeSuccess}, runs: 2,
		},
		{
			name:    "a retry without delay comes back at once",
			handler: failFirst(1, func() error { return core.RetryAfter(0, errBusy) }),
			want:    []core.Outcome{core.OutcomeRequeued, core.OutcomeSuccess}, runs: 2,
		},
		{
			name: "a plain error is a retry", handler: failFirst(2, func() error { return errBusy }),
			want: []core.Outcome{core.OutcomeRequeued, core.OutcomeRequeued, core.OutcomeSuccess}, runs: 3,
		},
		{
			name: "the last attempt's failure is a dead letter", handler: func(context.Context, *core.Job) error { return errBusy },
			want: []core.Outcome{core.OutcomeRequeued, core.OutcomeRequeued, core.OutcomeDead}, runs: 3,
			reason: core.ReasonExhausted, errText: "busy",
		},
		{
			name: "fail", handler: func(context.Context, *core.Job) error { return core.Fail(errors.New("no such order")) },
			want: []core.Outcome{core.OutcomeDead}, runs: 1, reason: core.ReasonFailed, errText: "no such order",
		},
		{
			name: "discard", handler: func(context.Context, *core.Job) error { return core.Discard(errBusy) },
			want: []core.Outcome{core.OutcomeDiscarded}, runs: 1,
		},
		{
			name:    "a deferred job keeps its attempt",
			handler: deferTwice,
			want:    []core.Outcome{core.OutcomeDeferred, core.OutcomeDeferred, core.OutcomeSuccess}, runs: 3,
		},
		{
			name:    "a panic is a retry",
			handler: failFirst(1, func() error { panic("kit") }),
			want:    []core.Outcome{core.OutcomeRequeued, core.OutcomeSuccess}, runs: 2,
		},
		{
			name: "a timeout is a retry",
			handler: func(ctx context.Context, j *core.Job) error {
				if j.Attempt == 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			},
			adjust: func(c *core.EngineConfig) { c.Timeout = 50 * time.Millisecond },
			want:   []core.Outcome{core.OutcomeRequeued, core.OutcomeSuccess}, runs: 2,
		},
		{
			name: "an unknown type", jobType: "kit.ghost", handler: succeed,
			want: []core.Outcome{core.OutcomeDead}, reason: core.ReasonUnregistered, errText: "unregistered jobType: kit.ghost",
		},
		{
			name: "a passed deadline discards the job unrun", handler: succeed,
			meta: map[string]any{"deadline": 1},
			want: []core.Outcome{core.OutcomeDiscarded},
		},
		{
			name: "malformed: not JSON", body: "kit: no JSON", handler: succeed,
			want: []core.Outcome{core.OutcomeDead}, reason: core.ReasonMalformed, errText: "not JSON at byte 0",
		},
		{
			name: "malformed: no type", body: `{"payload":{}}`, handler: succeed,
			want: []core.Outcome{core.OutcomeDead}, reason: core.ReasonMalformed, errText: "no jobType",
		},
		{
			name: "malformed: scalar payload", body: `{"jobType":"kit.job","payload":7}`, handler: succeed,
			want: []core.Outcome{core.OutcomeDead}, reason: core.ReasonMalformed, errText: "payload is not an object or list",
		},
		{
			name: "too large", body: `{"jobType":"kit.job","payload":["` + strings.Repeat("x", 4096) + `"]}`, handler: succeed,
			adjust: func(c *core.EngineConfig) { c.MaxSize = 1024 },
			want:   []core.Outcome{core.OutcomeDead}, reason: core.ReasonTooLarge,
		},
	}
}

var errBusy = errors.New("busy")

// failFirst fails the first n attempts.
func failFirst(n int, fail func() error) core.Handler {
	return func(_ context.Context, j *core.Job) error {
		if j.Attempt <= n {
			return fail()
		}
		return nil
	}
}

func deferTwice(_ context.Context, j *core.Job) error {
	if j.Attempt != 1 {
		return core.Fail(fmt.Errorf("attempt %d of a deferred job, want 1", j.Attempt))
	}
	if j.Meta.Deferred() < 2 {
		return core.DeferAfter(10*time.Millisecond, errBusy)
	}
	return nil
}

func (o outcome) run(k *kit) {
	if o.jobType == "" {
		o.jobType = "kit.job"
	}
	id := "job"
	d := k.open()
	if o.body != "" {
		k.send(d, core.Message{Body: []byte(o.body)})
	} else {
		j := k.job(id, o.jobType)
		for key, value := range o.meta {
			if err := j.Meta.Set(key, value); err != nil {
				k.Fatalf("set meta.%s: %v", key, err)
			}
		}
		k.publish(d, j)
	}
	adjust := o.adjust
	if adjust == nil {
		adjust = func(*core.EngineConfig) {}
	}
	k.start(handlers{"kit.job": o.handler}, adjust)
	k.awaitLedger("outcome", k.limits.Patience, func(l *ledger) bool { return l.count(core.EventFinished) >= len(o.want) })
	k.awaitEmpty()
	k.checkOutcomes(o.want)
	if got := len(k.ledger.runsOf("")); got != o.runs {
		k.Errorf("the handler ran %d times, want %d", got, o.runs)
	}
	k.checkDead(o, k.h.Held(k, k.b).Dead)
}

// checkOutcomes compares the outcomes of the case's only job, whatever its id.
func (k *kit) checkOutcomes(want []core.Outcome) {
	k.Helper()
	k.ledger.mu.Lock()
	defer k.ledger.mu.Unlock()
	if len(k.ledger.outcomes) != 1 {
		k.Errorf("%d jobs had outcomes, want 1: %v", len(k.ledger.outcomes), k.ledger.outcomes)
	}
	for id, got := range k.ledger.outcomes {
		if !slices.Equal(got, want) {
			k.Errorf("job %q had outcomes %v, want %v", id, got, want)
		}
	}
}

func (k *kit) checkDead(o outcome, dead []core.DeadRecord) {
	k.Helper()
	if o.reason == "" {
		if len(dead) != 0 {
			k.Errorf("there is a dead letter: %+v", dead[0])
		}
		return
	}
	if len(dead) != 1 {
		k.Fatalf("%d dead letters, want 1", len(dead))
	}
	r := dead[0]
	if r.Reason != o.reason || o.errText != "" && r.Error != o.errText || r.Error == "" {
		k.Errorf("dead letter says %q: %q, want %q: %q", r.Reason, r.Error, o.reason, o.errText)
	}
	if r.Queue != k.b.Queue || r.Process != k.b.Process || r.Transport != "kit" {
		k.Errorf("dead letter is from %s/%s/%s, want %s/%s/kit", r.Queue, r.Process, r.Transport, k.b.Queue, k.b.Process)
	}
	if age := time.Since(r.At); age < -2*time.Second || age > 2*k.limits.Patience {
		k.Errorf("dead letter is %v old", age)
	}
	switch {
	case o.body != "" && (r.Job != nil || string(r.Raw) != o.body):
		k.Errorf("dead letter has job %v and raw %.60q, want the body as it came", r.Job, r.Raw)
	case o.body == "" && (r.Job == nil || r.Job.ID != "job"):
		k.Errorf("dead letter has job %+v, want the envelope", r.Job)
	case o.body == "" && o.runs > 0 && r.Job.Attempt != o.runs:
		k.Errorf("dead letter has attempt %d, want %d", r.Job.Attempt, o.runs)
	}
}

func attemptsExact(k *kit) {
	k.publish(k.open(), k.jobs(5, "job", "kit.job")...)
	k.start(handlers{"kit.job": failFirst(2, func() error { return errBusy })})
	k.awaitFinished(k.limits.Patience)
	for i := range 5 {
		var attempts []int
		for _, r := range k.ledger.runsOf(fmt.Sprintf("job-%d", i)) {
			attempts = append(attempts, r.attempt)
		}
		if !slices.Equal(attempts, []int{1, 2, 3}) {
			k.Errorf("job-%d ran as attempts %v, want 1, 2, 3", i, attempts)
		}
	}
	k.awaitEmpty()
}

func bytesUnchanged(k *kit) {
	const payload = `{"big":9007199254740993,"object":{},"list":[],"float":1.0,"exp":1E2,"text":"<ü\u00fc\/>"}`
	const extra = `"custom":{"n":[1.0,{}]},"Payload":null`
	const meta = `{"tenantId":"t1","nested":{"a":[],"b":1.50}}`
	k.send(k.open(), core.Message{ID: "job", Type: "kit.job", Body: []byte(
		`{"v":99,"jobId":"job","jobType":"kit.job","payload":` + payload + `,"meta":` + meta +
			`,"attempt":1,"maxAttempts":5,"createdAt":1720764000,` + extra + `}`)})
	k.start(handlers{"kit.job": func(_ context.Context, j *core.Job) error {
		if string(j.Payload) != payload {
			return core.Discard(fmt.Errorf("payload is %s", j.Payload))
		}
		if j.Attempt < 3 {
			return errBusy
		}
		return core.Fail(errBusy)
	}})
	k.awaitOutcomes("job", core.OutcomeRequeued, core.OutcomeRequeued, core.OutcomeDead)
	dead := k.h.Held(k, k.b).Dead
	if len(dead) != 1 || dead[0].Job == nil {
		k.Fatalf("dead letters are %+v, want one with its job", dead)
	}
	got := string(dead[0].Job.Append(nil))
	for _, want := range []string{`"v":99`, `"payload":` + payload, `"tenantId":"t1"`, `"nested":{"a":[],"b":1.50}`, `"createdAt":1720764000,` + extra + `}`} {
		if !strings.Contains(got, want) {
			k.Errorf("after two retries the envelope is %s, want %s in it", got, want)
		}
	}
}

func noHotLoop(k *kit) {
	k.send(k.open(), core.Message{Body: []byte("{")}, core.Message{Body: []byte(`{"jobType":"kit.ghost"}`)}, core.Message{Body: []byte("[]")})
	w := k.start(handlers{"kit.job": succeed})
	k.awaitLedger("three dead letters", k.limits.Patience, func(l *ledger) bool { return l.count(core.EventFinished) >= 3 })
	k.publish(k.open(), k.job("after", "kit.job"))
	k.awaitOutcomes("after", core.OutcomeSuccess)
	if err := w.drain(); err != nil {
		k.Errorf("stop: %v", err)
	}
	if n := k.ledger.count(core.EventFinished); n != 4 {
		k.Errorf("%d deliveries were finished, want 4", n)
	}
	if n := len(k.h.Held(k, k.b).Dead); n != 3 {
		k.Errorf("%d dead letters, want 3", n)
	}
}

func alwaysFails(k *kit) {
	k.publish(k.open(), k.jobs(8, "job", "kit.job")...)
	const base = 50 * time.Millisecond
	k.start(handlers{"kit.job": func(context.Context, *core.Job) error { return errBusy }}, func(c *core.EngineConfig) {
		c.Retry.BaseDelay = base
	})
	k.awaitLedger("eight dead letters", k.limits.Patience, func(l *ledger) bool { return l.count(core.EventFinished) >= 8*3 })
	for i := range 8 {
		runs := k.ledger.runsOf(fmt.Sprintf("job-%d", i))
		if len(runs) != 3 {
			k.Errorf("job-%d ran %d times, want 3", i, len(runs))
		}
		for n := 1; n < len(runs); n++ {
			if gap := runs[n].start.Sub(runs[n-1].start); gap < base {
				k.Errorf("job-%d ran again after %v, want at least %v", i, gap, base)
			}
		}
	}
	if n := len(k.h.Held(k, k.b).Dead); n != 8 {
		k.Errorf("%d dead letters, want 8", n)
	}
}
