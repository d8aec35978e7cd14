package drivertest

import (
	"context"
	"slices"

	"github.com/goconsumer/consumer/core"
)

func publishCases() []Case {
	return []Case{
		{Name: "a published batch arrives whole and byte for byte", run: batchArrives},
		{Name: "a published batch keeps its order", needs: withoutLanes, run: batchKeepsOrder},
		{Name: "a failed publish says which messages are not stored",
			needs: func(p Powers) bool { _, ok := p.Harness.(Outage); return ok }, run: publishDuringOutage},
		{Name: "a handler can publish before it succeeds", run: publishFromHandler},
	}
}

func batchArrives(k *kit) {
	bodies := []string{`{"jobType":"a","payload":{"n":9007199254740993}}`, "\x00\xff not text", `{"jobType":"b"}`, " "}
	msgs := make([]core.Message, len(bodies))
	for i, body := range bodies {
		msgs[i] = core.Message{Body: []byte(body), ID: "", Type: "kit.job"}
	}
	d := k.open()
	k.send(d, msgs...)
	s := k.source(d, deaf{})
	var got []string
	for _, d := range k.receive(s, len(bodies)) {
		got = append(got, string(d.Body))
		k.done(s, d)
	}
	if slices.Sort(bodies); !slices.Equal(sorted(got), bodies) {
		k.Errorf("arrived as %q, want %q", got, bodies)
	}
}

func batchKeepsOrder(k *kit) {
	d := k.open()
	jobs := k.jobs(20, "job", "kit.job")
	k.publish(d, jobs...)
	s := k.source(d, deaf{})
	for _, j := range jobs {
		got := k.receive(s, 1)[0]
		if id := idOf(got.Body); id != j.ID {
			k.Fatalf("%s came, want %s", id, j.ID)
		}
		k.done(s, got)
	}
}

func publishDuringOutage(k *kit) {
	outage := k.h.(Outage)
	d := k.open()
	p := k.port(d)
	msgs := []core.Message{envelope(k.job("a", "kit.job")), envelope(k.job("b", "kit.job"))}
	outage.Down(k, d)
	ctx, cancel := context.WithTimeout(k.quit, k.limits.Patience)
	defer cancel()
	errs := p.Publish(ctx, msgs)
	if len(errs) != len(msgs) {
		k.Fatalf("Publish returned %d errors for %d messages while the broker was away", len(errs), len(msgs))
	}
	for i, err := range errs {
		if err == nil {
			k.Errorf("message %d was reported as stored while the broker was away", i)
		}
	}
	outage.Up(k, d)
	k.await("publishing works again", k.limits.Patience, func() bool { return p.Publish(k.quit, msgs) == nil })
	held := k.h.Held(k, k.b).IDs()
	for _, id := range []string{"a", "b"} {
		if !slices.Contains(held, id) {
			k.Errorf("%s was reported as stored and is not there", id)
		}
	}
}

func publishFromHandler(k *kit) {
	d := k.open()
	k.publish(d, k.job("parent", "kit.parent"))
	publisher := core.NewPublisher(k.port(d))
	child := k.job("child", "kit.child")
	k.startOn(d, handlers{
		"kit.parent": func(ctx context.Context, _ *core.Job) error {
			k.ledger.published(child.ID)
			return core.PublisherFrom(ctx).Publish(ctx, child)
		},
		"kit.child": succeed,
	}, func(c *core.EngineConfig) { c.Publisher = publisher })
	k.awaitOutcomes("child", core.OutcomeSuccess)
	k.awaitFinished(k.limits.Patience)
	k.awaitEmpty()
}
