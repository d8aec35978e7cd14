package coretest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/coretest"
	"github.com/goconsumer/consumer/core/drivertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// order is the payload of the jobs in these tests.
type order struct {
	ID int `json:"id"`
}

// charge makes a registry with one typed handler and a job for it.
func charge(t *testing.T, handler func(ctx context.Context, o order) error) (*core.Registry, *core.Job) {
	t.Helper()
	reg := core.NewRegistry()
	if err := core.Handle(reg, "order.charge", handler); err != nil {
		t.Fatal(err)
	}
	job, err := core.NewJob("order.charge", order{ID: 10001})
	if err != nil {
		t.Fatal(err)
	}
	return reg, job
}

func TestAHandlerThatFailsTwiceIsRetriedByThePolicy(t *testing.T) {
	t.Parallel()
	calls := 0
	reg, job := charge(t, func(_ context.Context, o order) error {
		if calls++; calls < 3 {
			return errors.New("bank is busy")
		}
		if o.ID != 10001 {
			return core.Fail(errors.New("wrong order"))
		}
		return nil
	})
	trace := coretest.Run(t, reg, job, coretest.Config{})
	if trace.Outcome != core.OutcomeSuccess || len(trace.Attempts) != 3 || trace.Took != 3*time.Second {
		t.Fatalf("ended as %s after %v:\n%s", trace.Outcome, trace.Took, trace)
	}
	for i, want := range []coretest.Attempt{
		{Number: 1, At: 0, Outcome: core.OutcomeRequeued, Error: "bank is busy", Delay: time.Second},
		{Number: 2, At: time.Second, Outcome: core.OutcomeRequeued, Error: "bank is busy", Delay: 2 * time.Second},
		{Number: 3, At: 3 * time.Second, Outcome: core.OutcomeSuccess},
	} {
		got := trace.Attempts[i]
		got.Cost = 0
		if got != want {
			t.Errorf("run %d is %+v, want %+v", i+1, got, want)
		}
	}
}

func TestAHandlerThatAlwaysFailsEndsAsADeadLetter(t *testing.T) {
	t.Parallel()
	reg, job := charge(t, func(context.Context, order) error { return errors.New("bank is closed") })
	trace := coretest.Run(t, reg, job, coretest.Config{})
	if trace.Outcome != core.OutcomeDead || trace.Dead == nil || trace.Dead.Reason != core.ReasonExhausted ||
		trace.Dead.Error != "bank is closed" || len(trace.Attempts) != 5 || trace.Took != 15*time.Second {
		t.Errorf("ended as %s after %v with %+v:\n%s", trace.Outcome, trace.Took, trace.Dead, trace)
	}
}

func TestAnUnknownTypeNeverRuns(t *testing.T) {
	t.Parallel()
	reg, job := charge(t, func(context.Context, order) error { return nil })
	job.Type = "order.refund"
	trace := coretest.Run(t, reg, job, coretest.Config{})
	if trace.Dead == nil || trace.Dead.Reason != core.ReasonUnregistered || len(trace.Attempts) != 0 {
		t.Errorf("ended as %s with %+v:\n%s", trace.Outcome, trace.Dead, trace)
	}
}

func TestAWorkerThatDiesAfterTheHandlerRunsItAgain(t *testing.T) {
	t.Parallel()
	for _, shape := range drivertest.Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			charged := 0
			reg, job := charge(t, func(context.Context, order) error { charged++; return nil })
			trace := coretest.Run(t, reg, job, coretest.Config{Shape: shape, CrashIn: []int{1}})
			if trace.Outcome != core.OutcomeSuccess || charged != 2 || !trace.Attempts[0].Crashed || trace.Attempts[1].Number != 1 {
				t.Errorf("charged %d times:\n%s", charged, trace)
			}
		})
	}
}

func TestALostReplyDoesNotRunTheHandlerAgain(t *testing.T) {
	t.Parallel()
	charged := 0
	reg, job := charge(t, func(context.Context, order) error { charged++; return nil })
	trace := coretest.Run(t, reg, job, coretest.Config{
		Faults: []drivertest.Fault{{Op: drivertest.OpSettle, Times: 2, LoseReply: true}},
	})
	if trace.Outcome != core.OutcomeSuccess || charged != 1 {
		t.Errorf("charged %d times:\n%s", charged, trace)
	}
}

func TestATimeLimitIsKeptOnTheVirtualClock(t *testing.T) {
	t.Parallel()
	reg, job := charge(t, func(ctx context.Context, _ order) error {
		<-ctx.Done()
		return ctx.Err()
	})
	trace := coretest.Run(t, reg, job, coretest.Config{Timeout: time.Hour, Retry: core.RetryPolicy{MaxAttempts: 1}})
	if trace.Took != time.Hour || trace.Dead == nil || trace.Dead.Error != "timed out after 1h0m0s" {
		t.Errorf("took %v, dead letter %+v:\n%s", trace.Took, trace.Dead, trace)
	}
}

func TestWhatAHandlerPublishesIsInTheTrace(t *testing.T) {
	t.Parallel()
	reg, job := charge(t, func(ctx context.Context, o order) error {
		receipt, err := core.NewJob("order.receipt", o)
		if err != nil {
			return err
		}
		return core.PublisherFrom(ctx).Publish(ctx, receipt)
	})
	trace := coretest.Run(t, reg, job, coretest.Config{})
	var types []string
	for _, j := range trace.Published {
		types = append(types, j.Type)
	}
	if !slices.Equal(types, []string{"order.receipt"}) || trace.Outcome != core.OutcomeSuccess {
		t.Errorf("published %v:\n%s", types, trace)
	}
}
