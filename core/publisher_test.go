package core

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// memoryPort keeps what is published; errs are its next answers.
type memoryPort struct {
	msgs   []Message
	errs   []error
	closed bool
}

var _ PublishPort = (*memoryPort)(nil)

func (p *memoryPort) Publish(_ context.Context, msgs []Message) []error {
	p.msgs = append(p.msgs, msgs...)
	return p.errs
}

func (p *memoryPort) Close(context.Context) error {
	p.closed = true
	return nil
}

func TestPublishSendsTheEnvelopeWithItsKeyAndPriority(t *testing.T) {
	t.Parallel()
	port := &memoryPort{}
	publisher := NewPublisher(port)
	job, err := NewJob("order.paid", map[string]int{"n": 1})
	must(t, err)
	must(t, job.Meta.Set("partitionKey", "o-1"))
	must(t, job.Meta.Set("priority", -9))
	before := string(job.Append(nil))
	must(t, publisher.PublishAfter(t.Context(), job, 3*time.Second))
	got := port.msgs[0]
	if string(got.Body) != before || string(job.Append(nil)) != before {
		t.Errorf("sent %s, want %s", got.Body, before)
	}
	if got.ID != job.ID || got.Type != "order.paid" || got.Key != "o-1" || got.Priority != PriorityHigh || got.Delay != 3*time.Second {
		t.Errorf("got %+v", got)
	}
	must(t, publisher.Close(t.Context()))
	if !port.closed {
		t.Error("the port is still open")
	}
}

func TestPublishFillsWhatAJobLacks(t *testing.T) {
	t.Parallel()
	port := &memoryPort{}
	publisher := NewPublisher(port)
	made := &Job{Type: "t"}
	must(t, publisher.PublishAfter(t.Context(), made, -time.Second))
	if made.ID == "" || made.V != 1 || made.Attempt != 1 || made.CreatedAt == 0 || string(port.msgs[0].Body) != string(made.Append(nil)) || port.msgs[0].Delay != 0 {
		t.Errorf("got %+v, sent %+v", made, port.msgs[0])
	}
	decoded := decode(t, `{"v":0,"jobType":"t","createdAt":0,"attempt":3}`)
	must(t, publisher.Publish(t.Context(), decoded))
	if decoded.ID == "" || decoded.V != 0 || decoded.CreatedAt != 0 || decoded.Attempt != 3 {
		t.Errorf("got %+v", decoded)
	}
}

func TestPublishBatchSendsNothingWhenAJobIsInvalid(t *testing.T) {
	t.Parallel()
	port := &memoryPort{}
	good := &Job{Type: "t"}
	errs := NewPublisher(port).PublishBatch(t.Context(), []Outgoing{
		{Job: good}, {}, {Job: &Job{}}, {Job: &Job{Type: "t", Payload: json.RawMessage("7")}}, {Job: &Job{Type: "t", Payload: json.RawMessage(" {} x")}},
		{Job: &Job{Type: "t", Payload: json.RawMessage(" ")}}, {Job: &Job{Type: "t", Payload: json.RawMessage(" [] ")}},
	})
	for i, mention := range []string{"not sent", "nil", "no jobType", "object or list", "not valid JSON", "not valid JSON", "not sent"} {
		if errs[i] == nil || !strings.Contains(errs[i].Error(), mention) {
			t.Errorf("item %d: %v, want %s", i, errs[i], mention)
		}
	}
	if !errors.Is(errs[0], ErrNotSent) || len(port.msgs) != 0 || good.ID != "" {
		t.Errorf("sent %v, job %+v", port.msgs, good)
	}
}

func TestPublishBatchHasAnErrorForEachItem(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	port := &memoryPort{errs: []error{nil, refused, nil}}
	var published []int
	publisher := NewPublisher(port, WithListeners("p", "r", "orders",
		func(*Event) { panic("a listener's own trouble") },
		func(e *Event) {
			if e.Kind != EventPublished || e.Process != "p" || e.Transport != "r" || e.Queue != "orders" || e.Time.IsZero() {
				t.Errorf("got %+v", e)
			}
			published = append(published, e.N)
		}))
	batch := []Outgoing{{Job: &Job{Type: "a"}}, {Job: &Job{Type: "b"}}, {Job: &Job{Type: "c"}}}
	errs := publisher.PublishBatch(t.Context(), batch)
	if len(errs) != 3 || errs[0] != nil || errs[1] != refused || errs[2] != nil {
		t.Errorf("got %v", errs)
	}
	port.errs = []error{refused}
	if err := publisher.Publish(t.Context(), batch[0].Job); err != refused {
		t.Errorf("got %v", err)
	}
	if errs := publisher.PublishBatch(t.Context(), nil); errs != nil || len(port.msgs) != 4 {
		t.Errorf("an empty batch: %v, %d messages", errs, len(port.msgs))
	}
	if len(published) != 1 || published[0] != 2 {
		t.Errorf("published %v, want [2]", published)
	}
}

func BenchmarkPublish(b *testing.B) {
	job, err := Decode([]byte(canonical))
	if err != nil {
		b.Fatal(err)
	}
	publisher := NewPublisher(discardPort{})
	b.ReportAllocs()
	for b.Loop() {
		if err := publisher.Publish(b.Context(), job); err != nil {
			b.Fatal(err)
		}
	}
}

type discardPort struct{}

func (discardPort) Publish(context.Context, []Message) []error { return nil }
func (discardPort) Close(context.Context) error                { return nil }
