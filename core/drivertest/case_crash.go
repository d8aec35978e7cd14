package drivertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/goconsumer/consumer/core"
)

func crashCases() []Case {
	return []Case{
		{Name: "what a vanished worker held is delivered again", run: vanishedIsRedelivered},
		{Name: "a vanished worker raises the count of what it held and of nothing else", Exercises: []string{"CrashCount"},
			needs: countsCrashes, run: vanishingCounts},
		{Name: "a retried job starts with a clean count", Exercises: []string{"CrashCount"}, needs: countsCrashes, run: retryClearsCount},
		{Name: "a job that kills its worker is stopped and takes no innocent along", Exercises: []string{"CrashCount", "Isolator"},
			needs: func(p Powers) bool { return countsCrashes(p) && p.Isolator }, run: killerAmongInnocents},
		{Name: "a suspect is found charged when it vanishes alone", Exercises: []string{"Isolator"},
			needs: func(p Powers) bool { return p.Isolator }, run: isolatedIsFoundCharged},
		{Name: "crashes at random moments lose nothing", run: repeatedCrashes},
		{Name: "a long job of a live worker is not taken away", run: longJobStays},
		{Name: "cut connections lose nothing and condemn no job",
			needs: func(p Powers) bool { _, ok := p.Harness.(Cutter); return ok }, run: cutConnections},
		{Name: "an outage loses nothing and work goes on after it",
			needs: func(p Powers) bool { _, ok := p.Harness.(Outage); return ok }, run: outageUnderLoad},
	}
}

func countsCrashes(p Powers) bool { return p.CrashCount != core.SupportNone }

func vanishedIsRedelivered(k *kit) {
	d := k.open()
	k.publish(d, k.jobs(5, "job", "kit.job")...)
	held := k.receive(k.source(d, deaf{}), 5)
	k.h.Crash(k, d)
	s := k.source(k.open(), deaf{})
	again := k.receiveWithin(s, 5, k.limits.Recovery+k.limits.Patience)
	if got, want := sorted(ids(again)), sorted(ids(held)); !slices.Equal(got, want) {
		k.Errorf("came again: %v, want %v", got, want)
	}
	k.done(s, again...)
	k.awaitEmpty()
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

func vanishingCounts(k *kit) {
	publisher := k.open()
	k.publish(publisher, k.jobs(2, "held", "kit.job")...)
	for vanished := range 3 {
		d := k.open()
		got := k.receiveWithin(k.source(d, deaf{}), 2, k.limits.Recovery+k.limits.Patience)
		k.checkFound(got, vanished)
		k.h.Crash(k, d)
	}
	s := k.source(k.open(), deaf{})
	got := k.receiveWithin(s, 2, k.limits.Recovery+k.limits.Patience)
	k.checkFound(got, 3)
	k.done(s, got...)
	k.publish(publisher, k.job("fresh", "kit.job"))
	fresh := k.receive(s, 1)
	k.checkFound(fresh, 0)
	k.done(s, fresh...)
}

func (k *kit) checkFound(ds []*core.Delivery, want int) {
	k.Helper()
	for _, d := range ds {
		if d.Found.N < want || d.Found.Exact && d.Found.N != want {
			k.Errorf("%s was found %d times (exact: %v), want %d", idOf(d.Body), d.Found.N, d.Found.Exact, want)
		}
	}
}

func retryClearsCount(k *kit) {
	d := k.open()
	k.publish(d, k.job("job", "kit.job"))
	k.receive(k.source(d, deaf{}), 1)
	k.h.Crash(k, d)
	s := k.source(k.open(), deaf{})
	got := k.receiveWithin(s, 1, k.limits.Recovery+k.limits.Patience)[0]
	k.mustSettle(s, core.Settlement{D: got, Verdict: core.VerdictRetry, Next: k.next(got)})
	again := k.receive(s, 1)
	k.checkFound(again, 0)
	k.done(s, again...)
}

// killerAmongInnocents restarts the worker each time the killer has run, until
// everything has its fate.
func killerAmongInnocents(k *kit) {
	const innocents, maxCrashes = 19, 2
	const work = 100 * time.Millisecond
	k.b.Concurrency = innocents + 1
	k.publish(k.open(), append(k.jobs(innocents, "innocent", "kit.job"), k.job("killer", "kit.kill"))...)

	kill := make(chan struct{})
	hs := handlers{
		"kit.job": func(ctx context.Context, _ *core.Job) error { return sleep(ctx, work) },
		"kit.kill": func(ctx context.Context, _ *core.Job) error {
			select {
			case kill <- struct{}{}:
			case <-ctx.Done():
			}
			<-ctx.Done() // a dead process goes no further
			return context.Cause(ctx)
		},
	}
	dead := func() bool { return slices.Contains(k.ledger.outcomesOf("killer"), core.OutcomeDead) }
	limit := time.After(time.Duration(maxCrashes+4) * (k.limits.Recovery + k.limits.Patience))
	for !dead() {
		w := k.start(hs, func(c *core.EngineConfig) { c.MaxCrashes = maxCrashes })
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			for !dead() && k.pause(k.quit) {
			}
		}()
		select {
		case <-kill:
			<-time.After(work / 4) // after a moment, so that innocents are really in flight
			w.crash()
		case <-finished:
		case <-limit:
			k.Fatalf("the killer has run %d times and is not dead", len(k.ledger.runsOf("killer")))
		}
		if n := len(k.ledger.runsOf("killer")); n > maxCrashes+3 {
			k.Fatalf("the killer has run %d times, want at most max_crashes (%d) + 3", n, maxCrashes)
		}
	}
	k.awaitLedger("every innocent succeeds", k.limits.Recovery+k.limits.Patience, func(l *ledger) bool {
		return slices.Equal(l.unfinished(), []string{"killer"})
	})
	k.awaitEmpty()
	held := k.h.Held(k, k.b)
	if len(held.Dead) != 1 || held.Dead[0].Reason != core.ReasonCrashed || held.Dead[0].Job == nil || held.Dead[0].Job.ID != "killer" {
		k.Errorf("dead letters are %+v, want the killer alone, reason crashed", held.Dead)
	}
}

func isolatedIsFoundCharged(k *kit) {
	d := k.open()
	j := k.job("job", "kit.job")
	k.publish(d, j)
	s := k.source(d, deaf{})
	got := k.receive(s, 1)[0]
	if err := j.Meta.Set("crashes", 1); err != nil {
		k.Fatal(err)
	}
	alone, err := s.(core.Isolator).Isolate(k.quit, got, j.Append(nil))
	if err != nil {
		k.Fatalf("isolate: %v", err)
	}
	if alone == nil {
		alone = k.receive(s, 1)[0]
	}
	if n := k.h.Held(k, k.b).Waiting(); n != 1 {
		k.Errorf("%d messages after Isolate, want 1", n)
	}
	k.checkCrashes(alone, 1)
	k.h.Crash(k, d)
	next := k.source(k.open(), deaf{})
	again := k.receiveWithin(next, 1, k.limits.Recovery+k.limits.Patience)[0]
	k.checkCrashes(again, 1)
	k.done(next, again)
	k.awaitEmpty()
}

func (k *kit) checkCrashes(d *core.Delivery, want int) {
	k.Helper()
	j, err := core.Decode(d.Body)
	if err != nil {
		k.Fatalf("decode: %v", err)
	}
	if got := j.Meta.Crashes(); got != want {
		k.Errorf("the envelope has meta.crashes %d, want %d", got, want)
	}
}

func repeatedCrashes(k *kit) {
	const n, rounds = 60, 4
	k.b.Concurrency = 8
	k.publish(k.open(), k.jobs(n, "job", "kit.job")...)
	hs := handlers{"kit.job": func(ctx context.Context, j *core.Job) error {
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
		return failFirst(1, func() error { return errBusy })(ctx, j)
	}}
	for round := range rounds {
		w := k.start(hs)
		k.awaitLedger("the worker has finished a few jobs", k.limits.Recovery+k.limits.Patience, func(l *ledger) bool {
			return len(l.runsOf("")) >= (round+1)*n/(rounds+1)
		})
		w.crash()
		k.conserved()
	}
	k.start(hs)
	k.awaitFinished(k.limits.Recovery + 2*k.limits.Patience)
	k.awaitEmpty()
	if dead := k.h.Held(k, k.b).Dead; len(dead) > 0 {
		k.Errorf("%d dead letters, want none: %+v", len(dead), dead[0])
	}
	// A crash may repeat what was in flight: what ran, and what waited for it.
	if runs, most := len(k.ledger.runsOf("")), 2*n+rounds*2*k.b.Concurrency; runs > most {
		k.Errorf("%d runs of %d jobs that need two each, want at most %d", runs, n, most)
	}
}

// longJobStays lets a job run for longer than it takes until a vanished worker's
// jobs are recovered, beside a worker that would recover them.
func longJobStays(k *kit) {
	long := k.limits.Recovery + 500*time.Millisecond
	hs := handlers{"kit.job": func(ctx context.Context, _ *core.Job) error { return sleep(ctx, long) }}
	k.start(hs).ready()
	k.start(hs).ready()
	k.publish(k.open(), k.jobs(2, "job", "kit.job")...)
	k.awaitFinished(2*long + k.limits.Patience)
	if runs := len(k.ledger.runsOf("")); runs != 2 {
		k.Errorf("%d runs of 2 long jobs", runs)
	}
	k.awaitEmpty()
}

func cutConnections(k *kit) {
	const n = 40
	k.publish(k.open(), k.jobs(n, "job", "kit.job")...)
	w := k.start(handlers{"kit.job": func(ctx context.Context, _ *core.Job) error { return sleep(ctx, 10*time.Millisecond) }},
		func(c *core.EngineConfig) { c.MaxCrashes = 1 })
	w.ready() // a cut before that may end the engine: opening is tried again by its owner
	for i := range 8 {
		k.awaitLedger(fmt.Sprintf("work goes on after cut %d", i), k.limits.Recovery+k.limits.Patience, func(l *ledger) bool {
			return len(l.runsOf("")) >= 3*i
		})
		k.h.(Cutter).Cut(k, w.d)
	}
	k.awaitFinished(k.limits.Recovery + 2*k.limits.Patience)
	k.awaitEmpty()
	if dead := k.h.Held(k, k.b).Dead; len(dead) > 0 {
		k.Errorf("a cut connection made a dead letter: %+v", dead[0])
	}
}

func outageUnderLoad(k *kit) {
	const n = 40
	outage := k.h.(Outage)
	k.publish(k.open(), k.jobs(n, "job", "kit.job")...)
	w := k.start(handlers{"kit.job": failFirst(1, func() error { return errBusy })})
	k.awaitLedger("some jobs run", k.limits.Patience, func(l *ledger) bool { return len(l.runsOf("")) > n/4 })
	outage.Down(k, w.d)
	k.await("the worker is not ready while the broker is away", k.limits.Patience, func() bool { return !w.e.Status().Ready })
	outage.Up(k, w.d)
	k.awaitFinished(k.limits.Recovery + 2*k.limits.Patience)
	w.ready()
	k.awaitEmpty()
}
