package drivertest

import (
	"context"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// soon is how long a case waits to see that nothing happens.
const soon = 50 * time.Millisecond

func receiveCases() []Case {
	return []Case{
		{Name: "a source says that it is ready once it is open", run: readyOnceOpen},
		{Name: "Receive returns at most what it is asked for", run: receiveAtMost},
		{Name: "Receive ends with its context and without an error", run: receiveEndsWithContext},
		{Name: "what an ended Receive had taken is not lost", run: interruptedReceiveLosesNothing},
		{Name: "byte-identical messages are all delivered, each settled by itself", run: twins},
		{Name: "a source holds no more than it gave out and its stated prefetch", needs: withoutLanes, run: noHoarding},
		{Name: "Inspect counts what is ready, in flight, delayed and dead", Exercises: []string{"Inspector"},
			needs: func(p Powers) bool { return p.Inspector }, run: inspectCounts},
	}
}

func withoutLanes(p Powers) bool { return !p.Lanes }

// states is a Notices that keeps the last status.
type states struct {
	deaf
	mu   sync.Mutex
	last core.Status
}

func (n *states) State(s core.Status) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last = s
}

func (n *states) ready() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last.Ready
}

func readyOnceOpen(k *kit) {
	n := &states{}
	s := k.source(k.open(), n)
	ctx, cancel := context.WithTimeout(k.quit, soon)
	defer cancel()
	if _, err := s.Receive(ctx, 1); err != nil {
		k.Fatalf("receive: %v", err)
	}
	k.await("State reports ready", k.limits.Patience, n.ready)
}

func receiveAtMost(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(10, "job", "kit.job")...)
	s := k.source(d, deaf{})
	for _, limit := range []int{1, 3, 6} {
		k.done(s, k.receive(s, limit)...) // fails when a call gives more
	}
	k.awaitEmpty()
}

func receiveEndsWithContext(k *kit) {
	s := k.source(k.open(), deaf{})
	ctx, cancel := context.WithCancel(k.quit)
	answer := make(chan error, 1)
	go func() {
		ds, err := s.Receive(ctx, 1)
		if len(ds) > 0 {
			k.Errorf("received %s from an empty queue", ids(ds))
		}
		answer <- err
	}()
	<-time.After(soon) // let it block
	cancel()
	select {
	case err := <-answer:
		if err != nil {
			k.Errorf("Receive returned %v, want nil", err)
		}
	case <-time.After(k.limits.Patience):
		k.Fatalf("Receive did not return within %v of its context's end", k.limits.Patience)
	}
}

func interruptedReceiveLosesNothing(k *kit) {
	d := k.open()
	s := k.source(d, deaf{})
	jobs := k.jobs(30, "job", "kit.job")
	go func() {
		for _, j := range jobs { // so that most arrive while a Receive waits
			<-time.After(1500 * time.Microsecond)
			k.publish(d, j)
		}
	}()
	got := map[string]int{}
	deadline := time.Now().Add(k.limits.Recovery + k.limits.Patience)
	for n := 0; n < len(jobs) && time.Now().Before(deadline); {
		ctx, cancel := context.WithTimeout(k.quit, time.Duration(1+n%5)*time.Millisecond)
		ds, err := s.Receive(ctx, 4)
		cancel()
		if err != nil {
			k.Fatalf("receive: %v", err)
		}
		k.done(s, ds...)
		for _, d := range ds {
			got[idOf(d.Body)]++
		}
		n += len(ds)
	}
	for _, j := range jobs {
		if got[j.ID] != 1 {
			k.Errorf("job %s came %d times, want once", j.ID, got[j.ID])
		}
	}
	k.awaitEmpty()
}

func twins(k *kit) {
	d := k.open()
	j := k.job("twin", "kit.job")
	k.publish(d, j, j, j, j)
	s := k.source(d, deaf{})
	ds := k.receive(s, 4)
	k.done(s, ds[0])
	if n := k.h.Held(k, k.b).Waiting(); n != 3 {
		k.Fatalf("%d of 4 twins are left after one was settled, want 3", n)
	}
	k.mustSettle(s, core.Settlement{D: ds[1], Verdict: core.VerdictRelease})
	k.done(s, ds[2], ds[3])
	k.done(s, k.receive(s, 1)...)
	k.awaitEmpty()
}

func noHoarding(k *kit) {
	spare := 4
	total := k.limits.Prefetch + 1 + spare
	k.publish(k.open(), k.jobs(total, "job", "kit.job")...)
	greedy, other := k.source(k.open(), deaf{}), k.source(k.open(), deaf{})
	held := k.receive(greedy, 1)
	got := k.receive(other, spare)
	k.done(greedy, held...)
	k.done(other, got...)
}

func inspectCounts(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(4, "job", "kit.job")...)
	s := k.source(d, deaf{})
	ds := k.receive(s, 3)
	k.mustSettle(s,
		core.Settlement{D: ds[0], Verdict: core.VerdictRetry, Next: ds[0].Body, Delay: time.Hour},
		core.Settlement{D: ds[1], Verdict: core.VerdictDead, Dead: k.deadRecord(ds[1])},
	)
	var stats core.QueueStats
	k.await("Inspect counts 1 ready, 1 delayed, 1 in flight, 1 dead", k.limits.Patience, func() bool {
		var err error
		if stats, err = d.(core.Inspector).Inspect(k.quit, k.b); err != nil {
			k.Fatalf("inspect: %v", err)
		}
		told := func(n *int64, want int64) bool { return n == nil || *n == want }
		return told(stats.Ready, 1) && told(stats.Delayed, 1) && told(stats.InFlight, 1) && told(stats.Dead, 1)
	})
	if stats.Ready == nil && stats.Lag == nil {
		k.Error("Inspect tells neither what is ready nor the lag")
	}
}
