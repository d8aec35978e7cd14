package redis

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
)

// abandon makes a source look as if its process had been killed: nothing of it
// runs any more, and everything at the server stays.
func (w *world) abandon(s *source) {
	s.stopFetching()
	s.stopWorking()
	s.workers.Wait()
	s.endLife()
	s.keepers.Wait()
	s.current.lose()
}

func TestRecoveryGivesJobsBackInOrderAndCountsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := jobs(400)
	w.push(in...)
	for found := range 3 {
		s, n := w.open(quick)
		ds := w.receive(s, 1)
		ds = append(ds, w.receive(s, len(in)-1)...)
		if !slices.Equal(bodies(ds), texts(in)) {
			t.Fatalf("round %d: the order changed", found)
		}
		for _, d := range ds {
			if d.Found != (core.Count{N: found}) {
				t.Fatalf("round %d: found %+v", found, d.Found)
			}
		}
		if found > 0 {
			var total int
			for _, ev := range n.of(core.EventRedelivered) {
				total += ev.N
			}
			if total != len(in) {
				t.Fatalf("events tell of %d jobs", total)
			}
		}
		if found < 2 {
			w.abandon(s)
			continue
		}
		w.settleAll(s, core.VerdictDone, ds...)
		w.eventually("the dead consumers' names are forgotten", func() bool {
			n, err := w.raw.SCard(t.Context(), w.keys.members).Result()
			return err == nil && n == 1
		})
		w.close(s)
		w.wantKeys()
	}
}

func TestRecoveredMarksFollowTheJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(jobs(4)...)
	first, _ := w.open(quick)
	w.receive(first, 4)
	w.abandon(first)

	s, _ := w.open(quick)
	ds := w.receive(s, 4)
	for i, d := range ds {
		if d.Found.N != 1 {
			t.Fatalf("job %d: found %d times", i, d.Found.N)
		}
	}
	charged, err := s.Isolate(t.Context(), ds[0], []byte("charged"))
	if err != nil || charged.Found.N != 1 {
		t.Fatalf("isolate: %+v, %v", charged, err)
	}
	errs := w.settle(s,
		core.Settlement{D: charged, Verdict: core.VerdictRelease, Next: []byte("refunded")},
		core.Settlement{D: ds[1], Verdict: core.VerdictRelease},
		core.Settlement{D: ds[2], Verdict: core.VerdictRetry, Next: ds[2].Body},
		core.Settlement{D: ds[3], Verdict: core.VerdictDone})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, d := range w.receive(s, 3) {
		found[string(d.Body)] = d.Found.N
	}
	if found["refunded"] != 1 || found[string(ds[1].Body)] != 1 || found[string(ds[2].Body)] != 0 {
		t.Fatalf("marks: %v", found)
	}
	if n := w.raw.HLen(t.Context(), w.keys.found).Val(); n != 2 {
		t.Fatalf("%d marks are kept", n)
	}
}

func TestALoneJobThatWasFoundIsMarkedWhenTheWaitTakesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(job("a"))
	dead, _ := w.open(quick)
	w.receive(dead, 1)
	s, _ := w.open(Options{Lease: time.Second, Sweep: 300 * time.Millisecond, Block: 5 * time.Second})
	got := make(chan []*core.Delivery)
	go func() {
		ds, _ := s.Receive(t.Context(), 1)
		got <- ds
	}()
	w.abandon(dead)
	if ds := <-got; len(ds) != 1 || ds[0].Found.N != 1 {
		t.Fatalf("got %+v", ds)
	}
}

func TestB34_ALiveConsumerIsNotTakenForDead(t *testing.T) {
	t.Parallel()
	t.Run("late but not recovered: it renews and goes on", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s, n := w.open(quick)
		w.push(jobs(2)...)
		ds := w.receive(s, 2)
		// The lease is over and nobody recovered it yet: the entry is what counts.
		w.raw.ZAdd(t.Context(), w.keys.consumers, z(1, s.current.id))
		if err := s.renew(); err != nil {
			t.Fatal(err)
		}
		w.settleAll(s, core.VerdictDone, ds...)
		if len(n.of(core.EventRedelivered)) != 0 || s.current.gone() {
			t.Fatal("it lost its lease")
		}
	})
	t.Run("late and sweeping: it does not recover itself", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s, _ := w.open(Options{Lease: time.Hour, Sweep: time.Hour})
		w.push(jobs(2)...)
		ds := w.receive(s, 2)
		w.raw.ZAdd(t.Context(), w.keys.consumers, z(1, s.current.id))
		if err := errors.Join(s.sweep(), s.search()); err != nil {
			t.Fatal(err)
		}
		w.settleAll(s, core.VerdictDone, ds...)
	})
	t.Run("recovered: its late results change nothing", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s1, _ := w.open(Options{Lease: time.Hour, Sweep: time.Hour}) // renews, and notices, far too late
		w.push(jobs(3)...)
		old := w.receive(s1, 3)
		name := s1.current.id
		w.raw.ZAdd(t.Context(), w.keys.consumers, z(1, name))
		s2, n := w.open(quick)
		again := w.receive(s2, 3)
		w.eventually("the recovery is told", func() bool { return len(n.of(core.EventRedelivered)) > 0 })
		if ev := n.of(core.EventRedelivered); len(ev) != 1 || ev[0].N != 3 || ev[0].Reason != name || ev[0].Cause != "orphan" {
			t.Fatalf("events: %+v", ev)
		}
		errs := w.settle(s1,
			core.Settlement{D: old[0], Verdict: core.VerdictDone},
			core.Settlement{D: old[1], Verdict: core.VerdictRetry, Next: []byte("late")},
			core.Settlement{D: old[2], Verdict: core.VerdictDead, Dead: deadRecord(t, old[2])})
		for i, err := range errs {
			if !errors.Is(err, core.ErrStale) {
				t.Errorf("late result %d: %v", i, err)
			}
		}
		select {
		case <-old[0].Lost:
		default:
			t.Error("its handlers were not told")
		}
		if got := w.list(s2.current.processing); len(got) != 3 || len(w.list(w.keys.ready)) != 0 || len(w.list(w.keys.dead)) != 0 {
			t.Fatalf("the late results changed something: %q", got)
		}
		// It goes on under a new name.
		w.settleAll(s2, core.VerdictDone, again...)
		w.push(job("next"))
		s2.stopFetching()
		ds := w.receive(s1, 1)
		if s1.current.id == name {
			t.Fatal("it kept its name")
		}
		w.settleAll(s1, core.VerdictDone, ds...)
	})
	t.Run("a consumer that has only just begun", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.push(job("a"))
		s1, _ := w.open(quick)
		ds := w.receive(s1, 1) // its first pop, before any renewal
		s3, n := w.open(quick)
		if err := s3.sweep(); err != nil {
			t.Fatal(err)
		}
		if len(n.of(core.EventRedelivered)) != 0 {
			t.Fatal("it was taken for dead")
		}
		w.settleAll(s1, core.VerdictDone, ds...)
	})
	t.Run("a move under an old name is found again", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s, _ := w.open(quick)
		// What a program does that slept between its last check and its BLMOVE.
		w.raw.SAdd(t.Context(), w.keys.members, "slept")
		w.push(job("a"))
		if err := w.raw.LMove(t.Context(), w.keys.ready, w.keys.processing+"slept", "RIGHT", "LEFT").Err(); err != nil {
			t.Fatal(err)
		}
		w.settleAll(s, core.VerdictDone, w.receive(s, 1)...)
	})
}

func TestB35_OrphansWithoutALeaseAreRecovered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw.LPush(t.Context(), w.keys.processing+"orphan", jobs(5)...)
	w.raw.SAdd(t.Context(), w.keys.members, "orphan")
	w.push(job("live1"), job("live2"))
	live, _ := w.open(Options{Sweep: time.Hour})
	// The sweep at the start may be first: take only the two.
	var held []*core.Delivery
	for _, d := range w.receive(live, 7) {
		if contains(string(d.Body), "live") {
			held = append(held, d)
		} else {
			w.settleAll(live, core.VerdictRelease, d)
		}
	}
	w.raw.ConfigResetStat(t.Context())
	s, n := w.open(quick)
	ds := w.receive(s, 5)
	got := bodies(ds)
	slices.Sort(got)
	if !slices.Equal(got, texts(jobs(5))) {
		t.Fatalf("recovered %q", got)
	}
	w.settleAll(s, core.VerdictDone, ds...)
	if len(w.list(live.current.processing)) != 2 {
		t.Fatal("the live consumer's list was touched")
	}
	w.settleAll(live, core.VerdictDone, held...)
	if ev := n.of(core.EventRedelivered); len(ev) > 1 || len(ev) == 1 && ev[0].Reason != "orphan" {
		t.Fatalf("events: %+v", ev)
	}
	if stats := w.raw.Info(t.Context(), "commandstats").Val(); contains(stats, "cmdstat_keys") {
		t.Fatal("KEYS was used")
	}
}

func TestTwoSweepersRecoverOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw.LPush(t.Context(), w.keys.processing+"orphan", jobs(2000)...)
	w.raw.SAdd(t.Context(), w.keys.members, "orphan")
	s1, _ := w.open(quick)
	s2, _ := w.open(quick)
	errs := make(chan error)
	for _, s := range []*source{s1, s2} {
		go func() { errs <- s.sweep() }()
	}
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	w.eventually("all are recovered", func() bool { return len(w.list(w.keys.ready)) == 2000 })
	if got := w.list(w.keys.ready); !slices.Equal(got, texts(jobs(2000))) {
		t.Fatal("the order changed")
	}
}

func TestCloseLeavesTheNameWhileAMoveMayFollow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.proxied()
	s, _ := w.open(Options{Lease: time.Second, Sweep: 200 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan struct{})
	go func() {
		s.Receive(ctx, 1)
		close(returned)
	}()
	w.blocked(2)
	p.Stall(0) // the server hears nothing any more, not even that the wait should end
	cancel()
	<-returned
	id := s.current.id
	p.Resume(0)
	w.close(s)
	if n := w.raw.ZScore(t.Context(), w.keys.gone, id).Val(); n == 0 {
		t.Fatal("the name was forgotten at once")
	}
	next, _ := w.open(quick)
	w.eventually("the name is forgotten later", func() bool {
		return !w.raw.SIsMember(t.Context(), w.keys.members, id).Val()
	})
	w.close(next)
	w.wantKeys()
}

func TestB35_ListsThatNoKeyNamesAreFoundAtTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	live, _ := w.open(quick)
	w.push(job("live"))
	held := w.receive(live, 1)
	w.raw.LPush(t.Context(), w.keys.processing+"orphan", jobs(5)...)
	w.raw.LPush(t.Context(), newKeys(core.Binding{Queue: "other"}, Options{}.withDefaults()).processing+"orphan", job("other"))
	s, _ := w.open(quick)
	ds := w.receive(s, 5)
	got := bodies(ds)
	slices.Sort(got)
	if !slices.Equal(got, texts(jobs(5))) {
		t.Fatalf("recovered %q", got)
	}
	w.settleAll(s, core.VerdictDone, ds...)
	w.settleAll(live, core.VerdictDone, held...)
}

func TestAConsumerWhoseNameWasDeletedGetsItsJobsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(quick)
	w.push(jobs(5)...)
	lost := w.receive(s, 5)
	w.raw.Del(t.Context(), w.keys.consumers, w.keys.members)
	again := w.receive(s, 5)
	got := bodies(again)
	slices.Sort(got)
	if !slices.Equal(got, texts(jobs(5))) {
		t.Fatalf("got %q", got)
	}
	select {
	case <-lost[0].Lost:
	default:
		t.Error("the old deliveries still count as ours")
	}
	w.settleAll(s, core.VerdictDone, again...)
}
