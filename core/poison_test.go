package core_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
)

func TestB38_WhatFailsBeforeTheHandlerGetsItsFateOnce(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		const noJSON, noType = "kit: no JSON", `{"jobId":"untyped","payload":{}}`
		s.push(noJSON, noType, strings.Replace(envelope("v99", "good"), `"v":1`, `"v":99`, 1), envelope("ghost", "ghost"), envelope("plain", "good"))
		s.m.Push(queue, []byte(envelope("headers", "good")), core.Header{Name: "n", Value: int64(7)}, core.Header{Name: "l", Value: []any{"a", int32(1)}})
		versions := make(chan int64, 8)
		s.start(map[string]core.Handler{"good": func(_ context.Context, j *core.Job) error {
			versions <- j.V
			return nil
		}})
		s.pass(3 * time.Second)

		for _, id := range []string{"v99", "plain", "headers"} {
			s.wantOutcomes(id, core.OutcomeSuccess)
		}
		s.want("handler runs", len(versions), 3)
		got := []int64{<-versions, <-versions, <-versions}
		if slices.Sort(got); !slices.Equal(got, []int64{1, 1, 99}) {
			t.Errorf("handlers saw v %v, want 1, 1, 99", got)
		}
		s.want("deliveries that were settled", len(s.events(core.EventFinished)), 6)
		for _, ev := range s.events(core.EventFinished) {
			if ev.Job == nil && (len(ev.IDs) != 1 || ev.IDs[0] != core.DeriveID(queue, []byte(noJSON)) && ev.IDs[0] != core.DeriveID(queue, []byte(noType))) {
				t.Errorf("a malformed message's event has the ids %q", ev.IDs)
			}
		}
		held := s.m.Held(queue)
		s.want("messages left", held.Waiting(), 0)
		s.want("dead letters", len(held.Dead), 3)
		raw := map[string]string{}
		for _, r := range held.Dead {
			if r.Job == nil {
				raw[string(r.Raw)] = r.Reason + ": " + r.Error
			}
		}
		if raw[noJSON] != "malformed: not JSON at byte 0" || raw[noType] != "malformed: no jobType" {
			t.Errorf("malformed dead letters are %q", raw)
		}
		if r := s.dead("ghost"); r.Reason != core.ReasonUnregistered || r.Error != "unregistered jobType: ghost" {
			t.Errorf("the unknown type's dead letter says %q: %q", r.Reason, r.Error)
		}
	})
}

func TestB38_UnregisteredRetryIsABoundedBackoff(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		s.push(envelope("ghost", "ghost"))
		s.start(map[string]core.Handler{"good": succeed}, func(c *core.EngineConfig) {
			c.RetryUnregistered = true
			c.MaxDefers = 4
			c.Retry = core.RetryPolicy{Type: core.RetryExponential, MaxAttempts: 3, BaseDelay: time.Second, Multiplier: 2, MaxDelay: 3 * time.Second}
		})
		s.pass(time.Minute)
		s.wantOutcomes("ghost", core.OutcomeDeferred, core.OutcomeDeferred, core.OutcomeDeferred, core.OutcomeDeferred, core.OutcomeDead)
		var delays []time.Duration
		for _, ev := range s.events(core.EventFinished)[:4] {
			delays = append(delays, ev.Delay)
		}
		if want := []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second}; !slices.Equal(delays, want) {
			t.Errorf("delays are %v, want %v", delays, want)
		}
		if r := s.dead("ghost"); r.Reason != core.ReasonUnregistered || r.Job.Attempt != 1 {
			t.Errorf("dead letter says %q, attempt %d", r.Reason, r.Job.Attempt)
		}
	})
}

func TestB40_NothingOfAJobIsLostAtAnyHop(t *testing.T) {
	onEveryBroker(t, func(s *stage) {
		const extras = `"payload":{"n":9007199254740993,"f":1.0,"o":{},"l":[]}`
		const unknown = `"createdAt":1720764000,"trace":{"a":[1,{"b":null}]},"x-y":"ü\u00fc"}`
		members := []string{`"tenantId":"t1"`, `"nested":{"deep":[1.50,"\/"]}`, `"priority":"high"`}
		s.push(`{"v":1,"jobId":"job-1","jobType":"paid",` + extras + `,"meta":{` + strings.Join(members, ",") + `},"attempt":1,"maxAttempts":9,` + unknown)
		check := func(hop string, body []byte) {
			for _, want := range append([]string{`"jobId":"job-1"`, extras, unknown, `"maxAttempts":9`}, members...) {
				if !strings.Contains(string(body), want) {
					t.Errorf("%s: %s is not in %s", hop, want, body)
				}
			}
		}
		s.start(map[string]core.Handler{"paid": func(_ context.Context, j *core.Job) error {
			check("in the handler", j.Append(nil))
			if j.Attempt < 3 {
				return core.RetryAfter(time.Minute, errBusy)
			}
			return core.Fail(errBusy)
		}}, func(c *core.EngineConfig) { c.Binding.Priority = core.PriorityNone })
		for range 2 {
			s.pass(time.Second)
			held := s.m.Held(queue)
			if len(held.Delayed) != 1 {
				t.Fatalf("%d delayed messages, want 1", len(held.Delayed))
			}
			check("delayed", held.Delayed[0])
			s.pass(time.Minute)
		}
		s.wantOutcomes("job-1", core.OutcomeRequeued, core.OutcomeRequeued, core.OutcomeDead)
		dead := s.dead("job-1")
		check("dead letter", dead.Job.Append(nil))
		if dead.Reason != core.ReasonFailed || dead.Job.Attempt != 3 {
			t.Errorf("dead letter says %q, attempt %d", dead.Reason, dead.Job.Attempt)
		}
	})
}

var errBusy = errors.New("busy")
