package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
)

func TestAFailedSettlementIsRepeatedAndTheHandlerIsNot(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		refused := errors.New("refused")
		s.m.Inject(drivertest.Fault{Op: drivertest.OpSettle, Times: 3, Err: refused})
		s.push(envelope("job", "job"))
		e := s.start(map[string]core.Handler{"job": succeed})
		s.pass(time.Millisecond)
		if st := e.Status(); st.Ready || !strings.Contains(st.Reason, "refused") {
			t.Errorf("status while nothing gets settled is %+v, want not ready with the reason", st)
		}
		s.want("messages at the broker meanwhile", s.m.Held(queue).Waiting(), 1)
		s.pass(5 * time.Second)
		s.wantOutcomes("job", core.OutcomeSuccess)
		s.want("handler runs", len(s.events(core.EventStarted)), 1)
		var tries []int
		for _, ev := range s.events(core.EventSettleError) {
			tries = append(tries, ev.N)
			if !errors.Is(ev.Err, refused) {
				t.Errorf("settle error is %v", ev.Err)
			}
		}
		if !slices.Equal(tries, []int{1, 2, 3}) {
			t.Errorf("tries are %v, want 1, 2, 3", tries)
		}
		if st := e.Status(); !st.Ready {
			t.Errorf("status afterwards is %+v, want ready", st)
		}
	})
}

func TestOneBadSettlementHoldsUpNoOther(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		bad := func(body []byte) bool { return strings.Contains(string(body), "bad-0") }
		s.m.Inject(drivertest.Fault{Op: drivertest.OpSettle, Match: bad, Err: errors.New("refused")})
		s.pushJobs(1, "bad", "job")
		s.pushJobs(10, "good", "job")
		e := s.start(map[string]core.Handler{"job": succeed})
		s.pass(time.Second)
		for i := range 10 {
			s.wantOutcomes(fmt.Sprintf("good-%d", i), core.OutcomeSuccess)
		}
		s.wantOutcomes("bad-0")
		s.want("messages left", s.m.Held(queue).Waiting(), 1)
		if st := e.Status(); !st.Ready && strings.Contains(st.Reason, "refused") && len(s.outcomes("good-9")) == 0 {
			t.Errorf("status is %+v though settlements get through", st)
		}
	})
}

func TestALostReplyDoublesNothing(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.m.Inject(drivertest.Fault{Op: drivertest.OpSettle, Times: 10, LoseReply: true})
		s.pushJobs(10, "job", "job")
		s.start(map[string]core.Handler{"job": func(_ context.Context, j *core.Job) error {
			if j.Attempt == 1 {
				return errBusy
			}
			return nil
		}})
		s.pass(10 * time.Second)
		for i := range 10 {
			got := s.outcomes(fmt.Sprintf("job-%d", i)) // a lost reply may come later than the next run
			if slices.Sort(got); !slices.Equal(got, []core.Outcome{core.OutcomeRequeued, core.OutcomeSuccess}) {
				t.Errorf("job-%d had outcomes %v, want one retry and one success", i, got)
			}
		}
		s.want("handler runs", len(s.events(core.EventStarted)), 20)
		s.want("messages left", s.m.Held(queue).Waiting(), 0)
	})
}

// sink is a dead-letter place of its own that can refuse.
type sink struct {
	mu      sync.Mutex
	refuse  int
	records []*core.DeadRecord
	look    func() // called before anything is stored
}

func (k *sink) Store(_ context.Context, records []*core.DeadRecord) []error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.look != nil {
		k.look()
	}
	errs := make([]error, len(records))
	for i, r := range records {
		if k.refuse > 0 {
			k.refuse--
			errs[i] = errors.New("sink is away")
			continue
		}
		k.records = append(k.records, r)
	}
	return errs
}

func TestADeadLetterIsInItsSinkBeforeTheOriginalGoes(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.pushJobs(3, "job", "job")
		place := &sink{refuse: 2}
		place.look = func() {
			if left := s.m.Held(queue).Waiting() + len(place.records); left < 3 {
				t.Errorf("%d jobs are left while dead letters are being stored, want 3", left)
			}
		}
		s.start(map[string]core.Handler{"job": func(context.Context, *core.Job) error { return core.Fail(errBusy) }},
			func(c *core.EngineConfig) { c.DeadSink = place })
		s.pass(5 * time.Second)
		s.want("records in the sink", len(place.records), 3)
		held := s.m.Held(queue)
		s.want("messages left", held.Waiting(), 0)
		s.want("dead letters in the transport's place", len(held.Dead), 0)
		for i := range 3 {
			s.wantOutcomes(fmt.Sprintf("job-%d", i), core.OutcomeDead)
		}
		s.want("handler runs", len(s.events(core.EventStarted)), 3)
	})
}

func TestAResultForALostDeliveryIsDroppedAndCounted(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.push(envelope("job", "job"))
		causes := make(chan error, 2)
		first := true
		e := s.start(map[string]core.Handler{"job": func(ctx context.Context, _ *core.Job) error {
			if !first {
				return nil
			}
			first = false
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil // it claims success all the same
		}})
		s.pass(time.Millisecond)
		e.d.Expire()
		s.pass(5 * time.Second)
		if cause := <-causes; !errors.Is(cause, core.ErrLost) {
			t.Errorf("the handler's context ended with %v, want ErrLost", cause)
		}
		s.want("stale results", len(s.events(core.EventStale)), 1)
		s.wantOutcomes("job", core.OutcomeSuccess)
		s.want("handler runs", len(s.events(core.EventStarted)), 2)
		s.want("messages left", s.m.Held(queue).Waiting(), 0)
	})
}

// deafSink is a dead-letter place that answers only when it may not any more.
type deafSink struct{}

func (deafSink) Store(ctx context.Context, records []*core.DeadRecord) []error {
	<-ctx.Done()
	errs := make([]error, len(records))
	for i := range errs {
		errs[i] = ctx.Err()
	}
	return errs
}

func TestAStopDoesNotWaitForASinkThatDoesNotAnswer(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.pushJobs(1, "job", "job")
		e := s.start(map[string]core.Handler{"job": func(context.Context, *core.Job) error { return core.Fail(errBusy) }},
			func(c *core.EngineConfig) { c.DeadSink = deafSink{} })
		s.pass(time.Second)
		e.stop()
		s.pass(time.Minute)
		select {
		case <-e.ended:
		default:
			t.Error("the engine still runs a minute after its stop")
		}
		s.want("messages left", s.m.Held(queue).Waiting(), 1)
	})
}

func TestAnOrderKeyWhoseQueuedJobWasLostGoesOn(t *testing.T) {
	onBroker(t, drivertest.Lanes(), func(s *stage) {
		for _, id := range []string{"first", "second", "third"} {
			key := "b"
			if id == "first" {
				key = "a" // holds the only slot while the others wait for it
			}
			body := []byte(envelope(id, "job"))
			if errs := s.pub.Publish(s.Context(), []core.Message{{Body: body, ID: id, Type: "job", Key: key}}); errs != nil {
				t.Fatal(errs)
			}
		}
		e := s.start(map[string]core.Handler{"job": work(time.Second)}, func(c *core.EngineConfig) {
			c.Binding.Concurrency = 1
			c.Prefetch = 8
			c.Binding.Ordering = core.OrderingKey
		})
		s.pass(500 * time.Millisecond)
		e.d.Expire()
		s.pass(time.Minute)
		for _, id := range []string{"first", "second", "third"} {
			s.wantOutcomes(id, core.OutcomeSuccess)
		}
	})
}
