package drivertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goconsumer/consumer/core"
)

func flowCases() []Case {
	return []Case{
		{Name: "no more jobs run than there are slots and all slots are used", run: slotsBound},
		{Name: "a busy worker holds no more than its slots and prefetch", needs: withoutLanes, run: backpressure},
		{Name: "a paused worker takes nothing and goes on when resumed", run: pauseResume},
		{Name: "two workers share a queue and run each job once", run: twoWorkers},
		{Name: "jobs of one key run one after the other and in order", Exercises: []string{"OrderKey"},
			needs: func(p Powers) bool { return p.OrderKey != core.SupportNone }, run: orderKey},
		{Name: "jobs of one partition run one after the other and in order", Exercises: []string{"OrderPartition"},
			needs: func(p Powers) bool { return p.OrderPartition != core.SupportNone }, run: orderPartition},
		{Name: "jobs of one queue run one after the other and in order", Exercises: []string{"OrderQueue"},
			needs: func(p Powers) bool { return p.OrderQueue != core.SupportNone }, run: orderQueue},
		{Name: "higher priorities run first, within a priority the older", Exercises: []string{"Priority"},
			needs: func(p Powers) bool { return p.Priority != core.SupportNone }, run: priorities},
		{Name: "a retried job keeps its priority", Exercises: []string{"Priority"},
			needs: func(p Powers) bool { return p.Priority != core.SupportNone }, run: retryKeepsPriority},
	}
}

func slotsBound(k *kit) {
	k.publish(k.open(), k.jobs(24, "job", "kit.job")...)
	k.start(handlers{"kit.job": func(ctx context.Context, _ *core.Job) error { return sleep(ctx, 10*time.Millisecond) }})
	k.awaitFinished(k.limits.Patience)
	if k.ledger.busiest() != k.b.Concurrency {
		k.Errorf("%d handlers ran at once, want %d", k.ledger.busiest(), k.b.Concurrency)
	}
}

func backpressure(k *kit) {
	total := k.b.Concurrency + k.limits.Prefetch + 10
	k.publish(k.open(), k.jobs(total, "job", "kit.job")...)
	release := make(chan struct{})
	k.start(handlers{"kit.job": func(ctx context.Context, _ *core.Job) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}}, func(c *core.EngineConfig) { c.Prefetch = -1 })
	k.awaitLedger("every slot is busy", k.limits.Patience, func(l *ledger) bool { return l.busiest() == k.b.Concurrency })
	// Another process gets everything else: nothing is hoarded.
	s := k.source(k.open(), deaf{})
	k.done(s, k.receive(s, total-k.b.Concurrency-k.limits.Prefetch)...)
	close(release)
	k.awaitEmpty()
}

func pauseResume(k *kit) {
	w := k.start(handlers{"kit.job": succeed})
	w.ready()
	w.e.Pause()
	k.await("the worker says that it is paused", k.limits.Patience, func() bool { return w.e.Status().Paused })
	k.publish(k.open(), k.jobs(3, "job", "kit.job")...)
	<-time.After(2 * soon)
	if n := len(k.ledger.runsOf("")); n != 0 {
		k.Errorf("%d jobs ran while paused", n)
	}
	w.e.Resume()
	k.awaitFinished(k.limits.Patience)
}

func twoWorkers(k *kit) {
	const n = 60
	hs := handlers{"kit.job": func(ctx context.Context, _ *core.Job) error { return sleep(ctx, 2*time.Millisecond) }}
	k.start(hs).ready()
	k.start(hs).ready()
	k.publish(k.open(), k.jobs(n, "job", "kit.job")...)
	k.awaitFinished(k.limits.Recovery + k.limits.Patience)
	if runs := len(k.ledger.runsOf("")); runs != n {
		k.Errorf("%d runs of %d jobs", runs, n)
	}
	k.awaitEmpty()
}

// orderedJobs makes jobs of several keys, publishes them one by one and runs
// them.
func (k *kit) runOrdered(ordering core.Ordering, keys ...string) {
	k.Helper()
	k.b.Ordering = ordering
	d := k.open()
	for i := range 8 {
		for _, key := range keys {
			j := k.job(fmt.Sprintf("%s-%d", key, i), "kit.job")
			if err := j.Meta.Set("partitionKey", key); err != nil {
				k.Fatal(err)
			}
			k.publish(d, j)
		}
	}
	k.start(handlers{"kit.job": func(ctx context.Context, _ *core.Job) error { return sleep(ctx, 3*time.Millisecond) }})
	k.awaitFinished(k.limits.Patience)
}

// checkOrder checks the runs of some jobs: in the order of their publishing and
// never two at once.
func (k *kit) checkOrder(key string) {
	k.Helper()
	var runs []run
	for i := range 8 {
		one := k.ledger.runsOf(fmt.Sprintf("%s-%d", key, i))
		if len(one) != 1 {
			k.Fatalf("%s-%d ran %d times, want once", key, i, len(one))
		}
		runs = append(runs, one[0])
	}
	for i := 1; i < len(runs); i++ {
		if runs[i].start.Before(runs[i-1].end) {
			k.Errorf("%s started before %s had ended", runs[i].id, runs[i-1].id)
		}
	}
}

func orderKey(k *kit) {
	keys := []string{"red", "green", "blue"}
	k.runOrdered(core.OrderingKey, keys...)
	for _, key := range keys {
		k.checkOrder(key)
	}
	if k.ledger.busiest() < 2 {
		k.Error("jobs of different keys never ran side by side")
	}
}

func orderPartition(k *kit) {
	k.runOrdered(core.OrderingPartition, "one")
	k.checkOrder("one")
}

func orderQueue(k *kit) {
	k.runOrdered(core.OrderingQueue, "one")
	k.checkOrder("one")
	if k.ledger.busiest() != 1 {
		k.Errorf("%d jobs ran at once, want 1", k.ledger.busiest())
	}
}

// prioritized makes a job of a level.
func (k *kit) prioritized(id string, level core.Priority) *core.Job {
	k.Helper()
	j := k.job(id, "kit.job")
	if err := j.Meta.Set("priority", int(level)); err != nil {
		k.Fatal(err)
	}
	// Read it again, so that Meta knows the level as a consumer would.
	again, err := core.Decode(j.Append(nil))
	if err != nil {
		k.Fatal(err)
	}
	return again
}

func priorities(k *kit) {
	k.b.Priority = core.PriorityLevels
	levels := []core.Priority{core.PriorityLow, core.PriorityNormal, core.PriorityCritical, core.PriorityMedium, core.PriorityHigh}
	d := k.open()
	for _, nth := range []string{"first", "second"} {
		for _, level := range levels {
			k.publish(d, k.prioritized(fmt.Sprintf("%s %d", nth, level), level))
		}
	}
	s := k.source(d, deaf{})
	var got []string
	for range 2 * len(levels) {
		ds := k.receive(s, 1)
		got = append(got, ids(ds)...)
		k.done(s, ds...)
	}
	slices.Sort(levels)
	var want []string
	for _, level := range levels {
		want = append(want, fmt.Sprintf("first %d", level), fmt.Sprintf("second %d", level))
	}
	if !slices.Equal(got, want) {
		k.Errorf("came as %q, want %q", got, want)
	}
}

func retryKeepsPriority(k *kit) {
	k.b.Priority = core.PriorityLevels
	d := k.open()
	k.publish(d, k.prioritized("high", core.PriorityHigh))
	s := k.source(d, deaf{})
	high := k.receive(s, 1)[0]
	k.publish(d, k.prioritized("normal", core.PriorityNormal))
	k.mustSettle(s, core.Settlement{D: high, Verdict: core.VerdictRetry, Next: k.next(high), Delay: soon})
	k.await("the retry is due", k.limits.Patience, func() bool { return len(k.h.Held(k, k.b).Ready) == 2 })
	var got []string
	for range 2 {
		ds := k.receive(s, 1)
		got = append(got, ids(ds)...)
		k.done(s, ds...)
	}
	if !slices.Equal(got, []string{"high", "normal"}) {
		k.Errorf("came as %v, want high, normal", got)
	}
}
