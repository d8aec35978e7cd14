package drivertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

func laneCases() []Case {
	return []Case{
		{Name: "every delivery names its lane", Exercises: []string{"Lanes"}, needs: hasLanes, run: lanesNamed},
		{Name: "a finished job above a gap is not repeated and the gap is not skipped", Exercises: []string{"Lanes"},
			needs: hasLanes, run: gapIsKept},
		{Name: "a new member gets lanes once they are drained", Exercises: []string{"Lanes"}, needs: hasLanes, run: lanesMove},
		{Name: "lanes that are not drained in time are lost to their old owner", Exercises: []string{"Lanes"},
			needs: hasLanes, run: lanesTakenAway},
		{Name: "a paused lane holds up no other", Exercises: []string{"LanePauser"},
			needs: func(p Powers) bool { return p.LanePauser }, run: lanePaused},
		{Name: "a lease is renewed as long as a handler runs", Exercises: []string{"Extender"},
			needs: func(p Powers) bool { return p.Extender }, run: leaseRenewed},
		{Name: "a lease that is not renewed ends and says so", Exercises: []string{"Extender"},
			needs: func(p Powers) bool { return p.Extender }, run: leaseEnds},
	}
}

func hasLanes(p Powers) bool { return p.Lanes }

// spread makes jobs of many keys, so that every lane gets some.
func (k *kit) spread(n int) []*core.Job {
	k.Helper()
	jobs := k.jobs(n, "job", "kit.job")
	for i, j := range jobs {
		if err := j.Meta.Set("partitionKey", fmt.Sprintf("key-%d", i)); err != nil {
			k.Fatal(err)
		}
	}
	return jobs
}

func lanesNamed(k *kit) {
	d := k.open()
	k.publish(d, k.spread(32)...)
	s := k.source(d, deaf{})
	lanes := map[core.Lane]bool{}
	for range 32 {
		got := k.receive(s, 1)[0]
		if got.Lane == "" || got.Ref == "" {
			k.Fatalf("%s has lane %q and ref %q", idOf(got.Body), got.Lane, got.Ref)
		}
		lanes[got.Lane] = true
		k.done(s, got)
	}
	if len(lanes) < 2 {
		k.Errorf("32 keys came on one lane")
	}
}

func gapIsKept(k *kit) {
	const n = 6
	d := k.open()
	for i := range n {
		j := k.job(fmt.Sprintf("job-%d", i), "kit.job")
		if err := j.Meta.Set("partitionKey", "one"); err != nil {
			k.Fatal(err)
		}
		k.publish(d, j)
	}
	s := k.source(d, deaf{})
	var gap *core.Delivery
	for i, got := range k.receive(s, n) {
		if i == 2 {
			gap = got
			continue
		}
		k.done(s, got)
	}
	k.h.Crash(k, d)
	next := k.source(k.open(), deaf{})
	again := k.receiveWithin(next, 1, k.limits.Recovery+k.limits.Patience)[0]
	if idOf(again.Body) != idOf(gap.Body) {
		k.Errorf("%s came after the crash, want %s, the only one unsettled", idOf(again.Body), idOf(gap.Body))
	}
	k.done(next, again)
	k.receiveNothing(next, soon)
	k.awaitEmpty()
}

func lanesMove(k *kit) {
	k.publish(k.open(), k.spread(40)...)
	running := make(chan struct{}, 40)
	release := make(chan struct{})
	hs := handlers{"kit.job": func(ctx context.Context, _ *core.Job) error {
		running <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	k.start(hs)
	for range k.b.Concurrency {
		<-running
	}
	second := k.start(hs)
	second.ready()
	close(release)
	k.awaitFinished(k.limits.Recovery + k.limits.Patience)
	k.awaitEmpty()
	if runs := len(k.ledger.runsOf("")); runs != 40 {
		k.Errorf("%d runs of 40 jobs: a drained lane repeats nothing", runs)
	}
	if second.e.Finished() == 0 {
		k.Error("the second member got nothing to do")
	}
}

// stubborn is a Notices whose lanes never drain.
type stubborn struct {
	states
	once     sync.Once
	revoking chan struct{}
}

func (n *stubborn) Revoking([]core.Lane, time.Time) <-chan struct{} {
	n.once.Do(func() { close(n.revoking) })
	return make(chan struct{})
}

func lanesTakenAway(k *kit) {
	const n = 32
	d := k.open()
	k.publish(d, k.spread(n)...)
	slow := &stubborn{revoking: make(chan struct{})}
	s := k.source(d, slow)
	held := k.receive(s, n)
	other := k.source(k.open(), deaf{})
	again := k.receiveWithin(other, 1, k.limits.Recovery+k.limits.Patience)
	<-slow.revoking
	taken := map[core.Lane]bool{}
	for _, got := range again {
		taken[got.Lane] = true
	}
	for _, old := range held {
		if !taken[old.Lane] {
			continue
		}
		select {
		case <-old.Lost:
		case <-time.After(k.limits.Patience):
			k.Fatalf("lane %s moved and Lost stays open", old.Lane)
		}
		if err := k.settle(s, core.Settlement{D: old, Verdict: core.VerdictDone})[0]; !errors.Is(err, core.ErrStale) {
			k.Errorf("settling %s of a lost lane: %v, want ErrStale", idOf(old.Body), err)
		}
	}
	k.conserved()
	k.done(other, again...)
}

func lanePaused(k *kit) {
	d := k.open()
	k.publish(d, k.spread(32)...)
	s := k.source(d, deaf{})
	first := k.receive(s, 1)[0]
	pauser := s.(core.LanePauser)
	pauser.PauseLanes([]core.Lane{first.Lane})
	others, paused := 0, 0
	for {
		ds := k.poll(s, 4)
		if len(ds) == 0 {
			break
		}
		for _, got := range ds {
			if got.Lane == first.Lane {
				paused++
			} else {
				others++
			}
		}
		k.done(s, ds...)
	}
	if others == 0 {
		k.Error("a paused lane holds up the others")
	}
	if most := k.limits.Prefetch; paused > most {
		k.Errorf("%d deliveries came from a paused lane, want at most what was prefetched (%d)", paused, most)
	}
	pauser.ResumeLanes([]core.Lane{first.Lane})
	k.done(s, first)
	k.done(s, k.receive(s, 32-1-others-paused)...)
	k.awaitEmpty()
}

func (k *kit) lease() time.Duration {
	k.Helper()
	return k.source(k.open(), deaf{}).(core.Extender).LeaseDuration()
}

func leaseRenewed(k *kit) {
	lease := k.lease()
	k.publish(k.open(), k.job("job", "kit.job"))
	k.start(handlers{"kit.job": func(ctx context.Context, _ *core.Job) error { return sleep(ctx, 3*lease) }})
	k.awaitFinished(4*lease + k.limits.Patience)
	if n := len(k.ledger.runsOf("job")); n != 1 {
		k.Errorf("the job ran %d times, want once", n)
	}
	k.awaitEmpty()
}

func leaseEnds(k *kit) {
	d := k.open()
	k.publish(d, k.job("job", "kit.job"))
	s := k.source(d, deaf{})
	got := k.receive(s, 1)[0]
	lease := s.(core.Extender).LeaseDuration()
	select {
	case <-got.Lost:
	case <-time.After(lease + k.limits.Patience):
		k.Fatalf("Lost was not closed %v after the lease's end", k.limits.Patience)
	}
	again := k.receiveWithin(s, 1, lease+k.limits.Patience)[0]
	if errs := s.(core.Extender).ExtendLease(k.quit, []*core.Delivery{got}); !errors.Is(errs[0], core.ErrStale) {
		k.Errorf("renewing an ended lease: %v, want ErrStale", errs[0])
	}
	k.done(s, again)
	k.awaitEmpty()
}
