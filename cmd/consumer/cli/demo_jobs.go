package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// demoTimeout is the demo's handler_timeout.
const demoTimeout = 300 * time.Millisecond

// demoKind is one sort of sample job.
type demoKind struct {
	jobType string
	count   int
	delay   time.Duration
	handler core.Handler // nil: nobody handles it
	story   string
}

// demoKinds are jobs for every way that a job can go.
func demoKinds() []demoKind {
	var seen visits
	return []demoKind{
		{"demo.success", 20, 0, succeed, "succeeds at once"},
		{"demo.delayed", 5, 400 * time.Millisecond, succeed, "published with a delay"},
		{"demo.retry", 6, 0, func(_ context.Context, job *core.Job) error {
			if job.Attempt < 3 {
				return core.Retry(errors.New("the shop is closed"))
			}
			return nil
		}, "fails twice, then succeeds"},
		{"demo.panic", 2, 0, func(_ context.Context, job *core.Job) error {
			if job.Attempt == 1 {
				panic("a bug in the handler")
			}
			return nil
		}, "panics once, then succeeds"},
		{"demo.timeout", 2, 0, func(ctx context.Context, job *core.Job) error {
			if job.Attempt == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, "outlives its time limit once, then succeeds"},
		{"demo.defer", 3, 0, func(_ context.Context, job *core.Job) error {
			if !seen.again(job.ID) {
				return core.DeferAfter(200*time.Millisecond, errors.New("not yet"))
			}
			return nil
		}, "asks to come back later, then succeeds"},
		{"demo.discard", 4, 0, func(context.Context, *core.Job) error {
			return core.Discard(errors.New("nobody needs this any more"))
		}, "is discarded"},
		{"demo.fail", 3, 0, func(context.Context, *core.Job) error {
			return core.Fail(errors.New("the order does not exist"))
		}, "fails for good: dead letter"},
		{"demo.exhaust", 2, 0, func(_ context.Context, job *core.Job) error {
			return core.Retry(fmt.Errorf("attempt %d failed", job.Attempt))
		}, "uses up its attempts: dead letter"},
		{"demo.unknown", 2, 0, nil, "has no handler: dead letter"},
	}
}

func succeed(context.Context, *core.Job) error { return nil }

// visits remembers which jobs were here.
type visits struct{ ids sync.Map }

func (v *visits) again(id string) bool {
	_, again := v.ids.LoadOrStore(id, struct{}{})
	return again
}

// demoMessages encodes the sample jobs, two more among them that are past their
// deadline and one message that is no job at all.
func demoMessages(kinds []demoKind) ([]core.Message, error) {
	var messages []core.Message
	add := func(job *core.Job, delay time.Duration) {
		messages = append(messages, core.Message{Body: job.Append(nil), ID: job.ID, Type: job.Type, Delay: delay})
	}
	for _, kind := range kinds {
		for n := range kind.count {
			job, err := core.NewJob(kind.jobType, map[string]int{"number": n + 1})
			if err != nil {
				return nil, err
			}
			add(job, kind.delay)
		}
	}
	for range 2 {
		job, err := core.NewJob("demo.success", nil)
		if err != nil {
			return nil, err
		}
		if err := job.Meta.Set("deadline", time.Now().Add(-time.Minute).UnixMilli()); err != nil {
			return nil, err
		}
		add(job, 0)
	}
	return append(messages, core.Message{Body: []byte("this is not an envelope")}), nil
}
