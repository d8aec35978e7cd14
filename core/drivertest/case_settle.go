package drivertest

import (
	"errors"
	"slices"
	"time"

	"github.com/goconsumer/consumer/core"
)

func settleCases() []Case {
	return []Case{
		{Name: "a batch of every verdict is settled item by item", run: mixedBatch},
		{Name: "what was reported as settled outlives a crash", run: settledIsDurable},
		{Name: "a released message comes back first", needs: withoutLanes, run: releasedComesFirst},
		{Name: "one bad item does not spoil its batch", run: badItem},
		{Name: "a dead letter beyond the cap is dropped only where the policy says so", run: deadOverflow},
		{Name: "a released message can come back with another body", run: releaseReplaces},
		{Name: "a stale settlement changes nothing and says so",
			needs: func(p Powers) bool { _, ok := p.Harness.(Expirer); return ok }, run: staleSettlement},
		{Name: "a settlement whose reply was lost is not applied twice", Exercises: []string{"AtomicSettle"},
			needs: func(p Powers) bool { _, ok := p.Harness.(ReplyLoser); return ok && p.AtomicSettle > core.SupportWeaker }, run: lostReply},
		{Name: "a settlement that fails leaves the message with the broker and can be repeated",
			needs: func(p Powers) bool { _, ok := p.Harness.(Outage); return ok }, run: settleDuringOutage},
	}
}

// deadRecord is the record that the engine would make of a delivery.
func (k *kit) deadRecord(d *core.Delivery) *core.DeadRecord {
	k.Helper()
	j, err := core.Decode(d.Body)
	if err != nil {
		k.Fatalf("decode: %v", err)
	}
	return &core.DeadRecord{
		Job: j, Error: "kit: no more", Reason: core.ReasonFailed, At: time.Now(),
		Queue: k.b.Queue, Process: k.b.Process, Transport: "kit", Source: d.Ref,
	}
}

// next is the envelope of a job's next attempt.
func (k *kit) next(d *core.Delivery) []byte {
	k.Helper()
	j, err := core.Decode(d.Body)
	if err != nil {
		k.Fatalf("decode: %v", err)
	}
	j.Attempt++
	return j.Append(nil)
}

func mixedBatch(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(5, "job", "kit.job")...)
	s := k.source(d, deaf{})
	ds := k.receive(s, 5)
	k.mustSettle(s,
		core.Settlement{D: ds[0], Verdict: core.VerdictDone},
		core.Settlement{D: ds[1], Verdict: core.VerdictRetry, Next: k.next(ds[1]), Delay: time.Hour},
		core.Settlement{D: ds[2], Verdict: core.VerdictDefer, Next: ds[2].Body, Delay: time.Hour},
		core.Settlement{D: ds[3], Verdict: core.VerdictDead, Dead: k.deadRecord(ds[3])},
		core.Settlement{D: ds[4], Verdict: core.VerdictRelease},
	)
	var held Held
	k.await("1 ready, 2 delayed, 1 dead", k.limits.Patience, func() bool {
		held = k.h.Held(k, k.b)
		return len(held.Ready) == 1 && len(held.Delayed) == 2 && len(held.InFlight) == 0 && len(held.Dead) == 1
	})
	if got, want := idOf(held.Ready[0]), idOf(ds[4].Body); got != want {
		k.Errorf("ready is %s, want the released %s", got, want)
	}
	if got, want := held.Dead[0].Job.ID, idOf(ds[3].Body); got != want {
		k.Errorf("dead is %s, want %s", got, want)
	}
	if slices.Contains(held.IDs(), idOf(ds[0].Body)) {
		k.Errorf("the done job %s is still held", idOf(ds[0].Body))
	}
}

// settledIsDurable crashes the process in the moment of the answer.
func settledIsDurable(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(4, "job", "kit.job")...)
	s := k.source(d, deaf{})
	ds := k.receive(s, 4)
	k.mustSettle(s,
		core.Settlement{D: ds[0], Verdict: core.VerdictDone},
		core.Settlement{D: ds[1], Verdict: core.VerdictRetry, Next: k.next(ds[1]), Delay: time.Hour},
		core.Settlement{D: ds[2], Verdict: core.VerdictDefer, Next: ds[2].Body, Delay: time.Hour},
		core.Settlement{D: ds[3], Verdict: core.VerdictDead, Dead: k.deadRecord(ds[3])},
	)
	k.h.Crash(k, d)
	held := k.h.Held(k, k.b)
	if len(held.Delayed) != 2 || len(held.Dead) != 1 || held.Waiting() != 2 {
		k.Errorf("after a crash there are %d delayed, %d dead and %d other messages, want 2, 1 and 0",
			len(held.Delayed), len(held.Dead), held.Waiting()-len(held.Delayed))
	}
	k.receiveNothing(k.source(k.open(), deaf{}), k.limits.Recovery+soon)
}

func releasedComesFirst(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(3, "job", "kit.job")...)
	s := k.source(d, deaf{})
	first := k.receive(s, 1)[0]
	k.mustSettle(s, core.Settlement{D: first, Verdict: core.VerdictRelease})
	again := k.receive(s, 1)[0]
	if idOf(again.Body) != idOf(first.Body) {
		k.Errorf("%s came after %s was released", idOf(again.Body), idOf(first.Body))
	}
	k.checkFound([]*core.Delivery{again}, 0)
	if again.Attempt != first.Attempt {
		k.Errorf("a release made attempt %d of %d", again.Attempt, first.Attempt)
	}
	k.done(s, append(k.receive(s, 2), again)...)
	k.awaitEmpty()
}

func badItem(k *kit) {
	k.b.DeadLetters = core.DeadLetterPolicy{MaxLen: 1, OnFull: core.OnFullStop}
	d := k.open()
	k.publish(d, k.jobs(4, "job", "kit.job")...)
	s := k.source(d, deaf{})
	ds := k.receive(s, 4)
	batch := []core.Settlement{
		{D: ds[0], Verdict: core.VerdictDone},
		{D: ds[1], Verdict: core.VerdictDead, Dead: k.deadRecord(ds[1])},
		{D: ds[2], Verdict: core.VerdictDead, Dead: k.deadRecord(ds[2])}, // one too many
		{D: ds[3], Verdict: core.VerdictDone},
	}
	errs := k.settle(s, batch...)
	for _, i := range []int{0, 1, 3} {
		if errs[i] != nil {
			k.Errorf("item %d: %v, want it settled", i, errs[i])
		}
	}
	if !errors.Is(errs[2], core.ErrDeadLettersFull) {
		k.Errorf("item 2: %v, want ErrDeadLettersFull", errs[2])
	}
	held := k.h.Held(k, k.b)
	if len(held.Dead) != 1 || held.Waiting() != 1 {
		k.Errorf("%d dead and %d waiting, want 1 and 1", len(held.Dead), held.Waiting())
	}
	k.mustSettle(s, core.Settlement{D: ds[2], Verdict: core.VerdictDone}) // still ours
	k.awaitEmpty()
}

func deadOverflow(k *kit) {
	k.b.DeadLetters = core.DeadLetterPolicy{MaxLen: 2, OnFull: core.OnFullDropOldest}
	d := k.open()
	k.publish(d, k.jobs(3, "job", "kit.job")...)
	heard := &overflow{}
	s := k.source(d, heard)
	var order []string
	for _, got := range k.receive(s, 3) {
		k.mustSettle(s, core.Settlement{D: got, Verdict: core.VerdictDead, Dead: k.deadRecord(got)})
		order = append(order, idOf(got.Body))
	}
	var left []string
	for _, r := range k.h.Held(k, k.b).Dead {
		left = append(left, r.Job.ID)
	}
	if !slices.Equal(left, order[1:]) {
		k.Errorf("dead letters are %v, want %v, oldest first", left, order[1:])
	}
	k.await("an EventDeadOverflow names "+order[0], k.limits.Patience, func() bool { return slices.Equal(heard.dropped(), order[:1]) })
}

// overflow keeps the ids of dropped dead letters.
type overflow struct {
	states
	ids []string
}

func (o *overflow) Event(ev *core.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ev.Kind == core.EventDeadOverflow {
		o.ids = append(o.ids, ev.IDs...)
	}
}

func (o *overflow) dropped() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.ids)
}

func releaseReplaces(k *kit) {
	d := k.open()
	k.publish(d, k.job("job", "kit.job"))
	s := k.source(d, deaf{})
	got := k.receive(s, 1)[0]
	k.mustSettle(s, core.Settlement{D: got, Verdict: core.VerdictRelease, Next: k.next(got)})
	again := k.receive(s, 1)[0]
	if string(again.Body) != string(k.next(got)) {
		k.Errorf("came back as %s, want %s", again.Body, k.next(got))
	}
	k.done(s, again)
}

func staleSettlement(k *kit) {
	verdicts := []core.Verdict{core.VerdictDone, core.VerdictRetry, core.VerdictDefer, core.VerdictDead, core.VerdictRelease}
	d := k.open()
	k.publish(d, k.jobs(len(verdicts), "job", "kit.job")...)
	s := k.source(d, deaf{})
	var late []core.Settlement
	for i, got := range k.receive(s, len(verdicts)) {
		late = append(late, core.Settlement{D: got, Verdict: verdicts[i], Next: got.Body, Delay: time.Hour, Dead: k.deadRecord(got)})
	}
	k.h.(Expirer).Expire(k, d)
	for _, item := range late {
		select {
		case <-item.D.Lost:
		case <-time.After(k.limits.Recovery + k.limits.Patience):
			k.Fatalf("Lost was not closed for %s", idOf(item.D.Body))
		}
	}
	other := k.source(k.open(), deaf{})
	owned := k.receiveFromEither(s, other, len(verdicts))
	for i, err := range k.settle(s, late...) {
		if !errors.Is(err, core.ErrStale) {
			k.Errorf("verdict %d: %v, want ErrStale", late[i].Verdict, err)
		}
	}
	held := k.h.Held(k, k.b)
	if held.Waiting() != len(verdicts) || len(held.Delayed) != 0 || len(held.Dead) != 0 {
		k.Errorf("stale results changed the queue: %d ready, %d delayed, %d in flight, %d dead",
			len(held.Ready), len(held.Delayed), len(held.InFlight), len(held.Dead))
	}
	for _, o := range owned {
		k.done(o.s, o.d)
	}
	k.awaitEmpty()
}

// ownedDelivery is a delivery and the source that may settle it.
type ownedDelivery struct {
	s core.Source
	d *core.Delivery
}

// receiveFromEither collects n deliveries from two sources.
func (k *kit) receiveFromEither(a, b core.Source, n int) []ownedDelivery {
	k.Helper()
	var all []ownedDelivery
	deadline := time.Now().Add(k.limits.Recovery + k.limits.Patience)
	for len(all) < n {
		if time.Now().After(deadline) {
			k.Fatalf("received %d of %d messages again", len(all), n)
		}
		for _, s := range []core.Source{a, b} {
			for _, d := range k.poll(s, n-len(all)) {
				all = append(all, ownedDelivery{s, d})
			}
		}
	}
	return all
}

func lostReply(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(3, "job", "kit.job")...)
	s := k.source(d, deaf{})
	ds := k.receive(s, 3)
	batch := []core.Settlement{
		{D: ds[0], Verdict: core.VerdictRetry, Next: k.next(ds[0]), Delay: time.Hour},
		{D: ds[1], Verdict: core.VerdictDead, Dead: k.deadRecord(ds[1])},
		{D: ds[2], Verdict: core.VerdictDone},
	}
	k.h.(ReplyLoser).LoseReply(k, d)
	deadline := time.Now().Add(k.limits.Recovery + k.limits.Patience)
	for len(batch) > 0 {
		if time.Now().After(deadline) {
			k.Fatalf("a settlement fails for ever after a lost reply")
		}
		var again []core.Settlement
		for i, err := range k.settle(s, batch...) {
			switch {
			case errors.Is(err, core.ErrStale):
				k.Errorf("verdict %d: ErrStale, though it was carried out", batch[i].Verdict)
			case err != nil:
				again = append(again, batch[i])
			}
		}
		batch = again
	}
	held := k.h.Held(k, k.b)
	if len(held.Delayed) != 1 || len(held.Dead) != 1 || len(held.Ready)+len(held.InFlight) != 0 {
		k.Errorf("%d delayed, %d dead, %d ready, %d in flight; want 1 delayed and 1 dead",
			len(held.Delayed), len(held.Dead), len(held.Ready), len(held.InFlight))
	}
}

func settleDuringOutage(k *kit) {
	outage := k.h.(Outage)
	d := k.open()
	k.publish(d, k.jobs(2, "job", "kit.job")...)
	s := k.source(d, deaf{})
	ds := k.receive(s, 2)
	batch := []core.Settlement{
		{D: ds[0], Verdict: core.VerdictDone},
		{D: ds[1], Verdict: core.VerdictRetry, Next: k.next(ds[1])},
	}
	outage.Down(k, d)
	for i, err := range k.settle(s, batch...) {
		if err == nil {
			k.Errorf("item %d was settled while the broker was away", i)
		}
	}
	outage.Up(k, d)
	if n := k.h.Held(k, k.b).Waiting(); n != 2 {
		k.Errorf("%d messages are left, want 2", n)
	}
	want := 1 // the retry, or what was taken away before it could be stored
	deadline := time.Now().Add(k.limits.Patience)
	for len(batch) > 0 && time.Now().Before(deadline) {
		var again []core.Settlement
		for i, err := range k.settle(s, batch...) {
			switch {
			case errors.Is(err, core.ErrStale): // the outage took it away: it comes again
				if batch[i].Verdict == core.VerdictDone {
					want++
				}
			case err != nil:
				again = append(again, batch[i])
			}
		}
		batch = again
		k.pause(k.quit)
	}
	if len(batch) > 0 {
		k.Fatalf("%d settlements fail though the broker is back", len(batch))
	}
	k.done(s, k.receiveWithin(s, want, k.limits.Recovery+k.limits.Patience)...)
	k.awaitEmpty()
}

// poll makes one short Receive and treats an error as nothing.
func (k *kit) poll(s core.Source, limit int) []*core.Delivery {
	ctx, cancel := k.short()
	defer cancel()
	ds, err := s.Receive(ctx, limit)
	if err != nil {
		k.pause(k.quit)
	}
	return ds
}
