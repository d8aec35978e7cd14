package drivertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goconsumer/consumer/core"
)

func stopCases() []Case {
	return []Case{
		{Name: "after Stop nothing more is delivered and what is held can be settled", run: stopEndsFetching},
		{Name: "Close gives back what is unsettled, uncharged", run: closeGivesBack},
		{Name: "what Close gives back comes first and in order", needs: withoutLanes, run: closeKeepsOrder},
		{Name: "a graceful stop waits for handlers", run: stopWaits},
		{Name: "a stop that cannot wait any longer releases without an attempt", run: stopReleases},
		{Name: "a worker that stopped can be started again", run: startAgain},
	}
}

func (k *kit) closeSource(s core.Source) {
	k.Helper()
	ctx, cancel := k.ending()
	defer cancel()
	if err := s.Close(ctx); err != nil {
		k.Fatalf("close: %v", err)
	}
}

func stopEndsFetching(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(2, "job", "kit.job")...)
	s := k.source(d, deaf{})
	held := k.receive(s, 2)
	if err := s.Stop(k.quit); err != nil {
		k.Fatalf("stop: %v", err)
	}
	k.publish(d, k.job("late", "kit.job"))
	if ds := k.poll(s, 1); len(ds) > 0 {
		k.Errorf("received %s after Stop", ids(ds))
	}
	k.done(s, held...)
	k.closeSource(s)
	other := k.source(k.open(), deaf{})
	k.done(other, k.receive(other, 1)...)
	k.awaitEmpty()
}

func closeGivesBack(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(3, "job", "kit.job")...)
	s := k.source(d, deaf{})
	before := map[string]*core.Delivery{}
	for _, got := range k.receive(s, 3) {
		before[idOf(got.Body)] = got
	}
	k.closeSource(s)
	other := k.source(k.open(), deaf{})
	again := k.receive(other, 3)
	for _, got := range again {
		old := before[idOf(got.Body)]
		switch {
		case old == nil:
			k.Errorf("%s was not held before", idOf(got.Body))
		case string(old.Body) != string(got.Body):
			k.Errorf("%s came back as %s", old.Body, got.Body)
		case got.Found.N != 0 && got.Found.Exact || got.Attempt != old.Attempt:
			k.Errorf("%s was charged: found %d, attempt %d, was %d", idOf(got.Body), got.Found.N, got.Attempt, old.Attempt)
		}
	}
	k.done(other, again...)
	k.awaitEmpty()
}

func closeKeepsOrder(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(6, "job", "kit.job")...)
	s := k.source(d, deaf{})
	var order []string
	for range 3 {
		order = append(order, ids(k.receive(s, 1))...)
	}
	k.closeSource(s)
	other := k.source(k.open(), deaf{})
	var again []string
	for range 3 {
		got := k.receive(other, 1)
		again = append(again, ids(got)...)
		k.done(other, got...)
	}
	if !slices.Equal(again, order) {
		k.Errorf("after Close %v came first, want %v", again, order)
	}
}

func stopWaits(k *kit) {
	k.publish(k.open(), k.jobs(4, "job", "kit.job")...)
	release := make(chan struct{})
	w := k.start(handlers{"kit.job": func(context.Context, *core.Job) error {
		<-release
		return nil
	}})
	k.awaitLedger("four handlers run", k.limits.Patience, func(l *ledger) bool { return l.busiest() == 4 })
	w.stop()
	close(release)
	if err := w.drain(); err != nil {
		k.Errorf("stop: %v", err)
	}
	k.awaitFinished(k.limits.Patience)
	k.awaitEmpty()
	if n := len(k.ledger.runsOf("")); n != 4 {
		k.Errorf("%d runs, want 4", n)
	}
}

func stopReleases(k *kit) {
	const n = 6
	k.publish(k.open(), k.jobs(n, "job", "kit.job")...)
	w := k.start(handlers{"kit.job": func(ctx context.Context, _ *core.Job) error {
		<-ctx.Done()
		return ctx.Err()
	}}, func(c *core.EngineConfig) { c.ShutdownTimeout = 20 * time.Millisecond })
	k.awaitLedger("handlers run", k.limits.Patience, func(l *ledger) bool { return l.busiest() == 4 })
	if err := w.drain(); err != nil {
		k.Errorf("stop: %v", err)
	}
	if n := k.h.Held(k, k.b).Waiting(); n != 6 {
		k.Fatalf("%d jobs are left, want 6", n)
	}
	s := k.source(k.open(), deaf{})
	for _, got := range k.receive(s, n) {
		j, err := core.Decode(got.Body)
		if err != nil {
			k.Fatalf("decode: %v", err)
		}
		if j.Attempt != 1 || j.Meta.Crashes() != 0 || got.Attempt > 1 || got.Found.Exact && got.Found.N > 0 {
			k.Errorf("%s was charged: attempt %d, crashes %d, broker's attempt %d, found %d", j.ID, j.Attempt, j.Meta.Crashes(), got.Attempt, got.Found.N)
		}
		k.done(s, got)
	}
	k.awaitEmpty()
}

func startAgain(k *kit) {
	for round := range 3 {
		id := fmt.Sprintf("job-%d", round)
		w := k.start(handlers{"kit.job": succeed})
		k.publish(k.open(), k.job(id, "kit.job"))
		k.awaitOutcomes(id, core.OutcomeSuccess)
		if err := w.drain(); err != nil {
			var unsettled *core.UnsettledError
			k.Errorf("stop %d: %v (unsettled: %v)", round, err, errors.As(err, &unsettled))
		}
	}
	k.awaitEmpty()
}
