package redis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
)

func contains(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}

// deadRecord is a record of the job in d.
func deadRecord(t *testing.T, d *core.Delivery) *core.DeadRecord {
	t.Helper()
	j, err := core.Decode(d.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &core.DeadRecord{Job: j, Error: "boom", Reason: core.ReasonFailed, At: time.Unix(1720764001, 0), Queue: queue, Process: "job", Transport: "redis"}
}

func TestSettleCarriesOutEveryVerdictInOneBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(quick)
	w.push(jobs(8)...)
	ds := w.receive(s, 8)
	errs := w.settle(s,
		core.Settlement{D: ds[5], Verdict: core.VerdictRelease},
		core.Settlement{D: ds[0], Verdict: core.VerdictDone},
		core.Settlement{D: ds[1], Verdict: core.VerdictRetry, Next: []byte("again"), Delay: time.Hour},
		core.Settlement{D: ds[2], Verdict: core.VerdictDefer, Next: []byte("deferred")},
		core.Settlement{D: ds[3], Verdict: core.VerdictDead, Dead: deadRecord(t, ds[3])},
		core.Settlement{D: ds[6], Verdict: core.VerdictRelease, Next: []byte("refunded")},
		core.Settlement{D: ds[4], Verdict: core.VerdictDone},
	)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got, want := w.list(s.current.processing), []string{string(ds[7].Body)}; !slices.Equal(got, want) {
		t.Errorf("processing: %q", got)
	}
	if got, want := w.list(w.keys.ready), []string{string(ds[5].Body), "refunded", "deferred"}; !slices.Equal(got, want) {
		t.Errorf("ready: %q", got)
	}
	z, err := w.raw.ZRangeWithScores(t.Context(), w.keys.delay, 0, -1).Result()
	if err != nil || len(z) != 1 || z[0].Member != "again" {
		t.Fatalf("delayed: %v, %v", z, err)
	}
	now := w.raw.Time(t.Context()).Val().UnixMilli()
	if due := int64(z[0].Score); due > now+time.Hour.Milliseconds()+1 || due < now+time.Hour.Milliseconds()-60_000 {
		t.Errorf("due in %d ms", due-now)
	}
	want := `{"job":` + string(ds[3].Body) + `,"error":"boom","at":1720764001,"reason":"failed","queue":"orders","process":"job","transport":"redis"}`
	if got := w.list(w.keys.dead); !slices.Equal(got, []string{want}) {
		t.Errorf("dead: %q", got)
	}
	w.settleAll(s, core.VerdictDone, ds[7])
}

func TestSettleCountsTwinsAndNeverConfusesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(quick)
	w.push(job("t"), job("t"), job("t"), job("u"), job("t"))
	ds := w.receive(s, 5)
	w.settleAll(s, core.VerdictDone, ds[2])
	if got := len(w.list(s.current.processing)); got != 4 {
		t.Fatalf("%d jobs in processing after one of four twins was settled", got)
	}
	w.settleAll(s, core.VerdictDone, ds[0], ds[3], ds[4])
	if got := w.list(s.current.processing); !slices.Equal(got, []string{job("t")}) {
		t.Fatalf("processing: %q", got)
	}
	// All twins wait for the same time: each keeps its own place.
	w.settleAll(s, core.VerdictDone, ds[1])
	w.push(slices.Repeat([]any{job("t")}, 100)...)
	ds = w.receive(s, 100)
	batch := make([]core.Settlement, len(ds))
	for i, d := range ds {
		batch[i] = core.Settlement{D: d, Verdict: core.VerdictRetry, Next: d.Body, Delay: 100 * time.Millisecond}
	}
	if err := errors.Join(w.settle(s, batch...)...); err != nil {
		t.Fatal(err)
	}
	ds = w.receive(s, 100)
	for _, d := range ds {
		if strings.TrimRight(string(d.Body), " \t") != job("t") {
			t.Fatalf("body %q", d.Body)
		}
		if j, err := core.Decode(d.Body); err != nil || j.ID != "t" {
			t.Fatalf("decode: %v", err)
		}
	}
	w.settleAll(s, core.VerdictDone, ds...)
	w.close(s)
	w.wantKeys()
}

func TestSettleTrimsFinishedPrefixesAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(quick)
	w.push(jobs(300)...)
	ds := w.receive(s, 300)
	w.raw.ConfigResetStat(t.Context())
	w.settleAll(s, core.VerdictDone, ds[:200]...)
	if stats := w.raw.Info(t.Context(), "commandstats").Val(); strings.Contains(stats, "cmdstat_lrem") {
		t.Error("a finished prefix was removed one by one")
	}
	// 200 still runs; the others are settled in an odd order.
	rest := slices.Clone(ds[201:])
	slices.Reverse(rest)
	w.settleAll(s, core.VerdictDone, rest...)
	if got := w.list(s.current.processing); !slices.Equal(got, []string{string(ds[200].Body)}) {
		t.Fatalf("processing: %q", got)
	}
}

func TestSettleOfAJobThatIsNotOursChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(quick)
	w.push(jobs(3)...)
	ds := w.receive(s, 3)
	w.raw.LRem(t.Context(), s.current.processing, 1, ds[1].Body)
	errs := w.settle(s,
		core.Settlement{D: ds[0], Verdict: core.VerdictDone},
		core.Settlement{D: ds[1], Verdict: core.VerdictRetry, Next: []byte("again"), Delay: time.Second},
		core.Settlement{D: ds[2], Verdict: core.VerdictDone})
	if errs[0] != nil || !errors.Is(errs[1], core.ErrStale) || errs[2] != nil {
		t.Fatalf("errors: %v", errs)
	}
	if w.delayed() != 0 || len(w.list(w.keys.ready)) != 0 {
		t.Fatal("the retry of a job that is not ours was stored")
	}
}

func TestSettleKeepsAJobWhoseOutcomeCannotBeStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(Options{DelayPoll: time.Hour, Sweep: time.Hour})
	w.push(jobs(4)...)
	ds := w.receive(s, 4)
	for _, key := range []string{w.keys.delay, w.keys.dead} {
		w.raw.Set(t.Context(), key, "text", 0)
	}
	batch := []core.Settlement{
		{D: ds[0], Verdict: core.VerdictDone},
		{D: ds[1], Verdict: core.VerdictRetry, Next: []byte("again"), Delay: time.Second},
		{D: ds[2], Verdict: core.VerdictDead, Dead: deadRecord(t, ds[2])},
		{D: ds[3], Verdict: core.VerdictRetry, Next: []byte("now")},
	}
	errs := w.settle(s, batch...)
	if errs[0] != nil || errs[3] != nil || errs[1] == nil || errs[2] == nil || !contains(errs[2].Error(), "WRONGTYPE") {
		t.Fatalf("errors: %v", errs)
	}
	got := w.list(s.current.processing)
	slices.Sort(got)
	if !slices.Equal(got, bodies(ds[1:3])) {
		t.Fatalf("processing: %q", got)
	}
	w.raw.Del(t.Context(), w.keys.delay, w.keys.dead)
	if err := errors.Join(w.settle(s, batch[1:3]...)...); err != nil {
		t.Fatal(err)
	}
	if w.delayed() != 1 || len(w.list(w.keys.dead)) != 1 || len(w.processing()) != 0 {
		t.Fatal("the second try did not settle")
	}
}

func TestSettleIsNotAppliedTwiceWhenItsReplyIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.proxied()
	s, _ := w.open(quick)
	w.push(job("warm"))
	w.settleAll(s, core.VerdictDone, w.receive(s, 1)...)
	for losses := 1; losses <= 5; losses++ {
		t.Run(fmt.Sprintf("%d replies lost", losses), func(t *testing.T) {
			// Twins: applied twice, the call would remove the other one too.
			w.push(job("t"), job("t"), job("t"), job("t"))
			ds := w.receiveAfterFaults(s, 4)
			p.LoseReplies(w.keys.dead, losses, nil)
			batch := []core.Settlement{
				{D: ds[0], Verdict: core.VerdictRetry, Next: []byte("again")},
				{D: ds[1], Verdict: core.VerdictDead, Dead: deadRecord(t, ds[1])},
			}
			for tries := 0; len(batch) > 0; tries++ {
				if tries > 10 {
					t.Fatal("it never settles")
				}
				var left []core.Settlement
				for i, err := range w.settle(s, batch...) {
					if err != nil {
						left = append(left, batch[i])
					}
				}
				batch = left
			}
			if got := w.list(s.current.processing); !slices.Equal(got, []string{job("t"), job("t")}) {
				t.Errorf("processing: %q", got)
			}
			if ready, dead := w.list(w.keys.ready), w.list(w.keys.dead); len(ready) != 1 || len(dead) != 1 {
				t.Errorf("ready %q, dead %q", ready, dead)
			}
			w.settleAll(s, core.VerdictDone, ds[2:]...)
			w.settleAll(s, core.VerdictDone, w.receiveAfterFaults(s, 1)...)
			w.raw.Del(t.Context(), w.keys.dead)
		})
	}
}

func TestSettleOfADecidedJobKeepsTheFirstDecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.proxied()
	s, _ := w.open(quick)
	w.push(jobs(2)...)
	ds := w.receive(s, 2)
	w.settleAll(s, core.VerdictDone, ds[0])
	p.LoseReplies(w.keys.dead, len(repeatAfter), nil)
	if errs := w.settle(s, core.Settlement{D: ds[1], Verdict: core.VerdictDone}); errs[0] == nil || errors.Is(errs[0], core.ErrStale) {
		t.Fatalf("error: %v", errs[0])
	}
	// Its fate is known now: done. A release would bring it back.
	if errs := w.settle(s, core.Settlement{D: ds[1], Verdict: core.VerdictRelease}); errs[0] != nil {
		t.Fatalf("error: %v", errs[0])
	}
	if n := len(w.list(w.keys.ready)) + len(w.processing()); n != 0 {
		t.Fatalf("%d jobs came back", n)
	}
}

func TestSettleReleasesInOrderAndNextToRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(quick)
	in := jobs(30)
	w.push(in...)
	ds := w.receive(s, 20)
	shuffled := slices.Clone(ds)
	slices.Reverse(shuffled)
	w.settleAll(s, core.VerdictRelease, shuffled[5:]...)
	w.close(s) // gives the last five back
	got := w.list(w.keys.ready)
	want := append(texts(in[15:20]), texts(in[:15])...)
	want = append(want, texts(in[20:])...)
	if !slices.Equal(got, want) {
		t.Fatalf("ready: %q", got)
	}
}

func TestIsolateReplacesTheBodyInOneStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.proxied()
	s, _ := w.open(quick)
	w.push(job("a"), job("b"))
	ds := w.receive(s, 2)
	w.settleAll(s, core.VerdictDone, ds[1])
	p.LoseReplies(w.keys.dead, 1, nil)
	charged, err := s.Isolate(t.Context(), ds[0], []byte("charged"))
	if err != nil || string(charged.Body) != "charged" || string(ds[0].Body) != job("a") {
		t.Fatalf("isolate: %v, %v", charged, err)
	}
	if got := w.list(s.current.processing); !slices.Equal(got, []string{"charged"}) {
		t.Fatalf("processing: %q", got)
	}
	if errs := w.settle(s, core.Settlement{D: charged, Verdict: core.VerdictRelease, Next: ds[0].Body}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	if got := w.list(w.keys.ready); !slices.Equal(got, []string{job("a")}) {
		t.Fatalf("ready: %q", got)
	}
	again := w.receiveAfterFaults(s, 1)
	w.raw.Del(t.Context(), s.current.processing)
	if _, err := s.Isolate(t.Context(), again[0], []byte("charged")); !errors.Is(err, core.ErrStale) {
		t.Fatalf("isolate of a job that is not ours: %v", err)
	}
}

func TestIsolateWithAnUnknownFateIsResolvedByTheNextCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.proxied()
	s, _ := w.open(quick)
	w.push(job("warm"), job("a"))
	ds := w.receive(s, 2)
	w.settleAll(s, core.VerdictDone, ds[0])
	p.LoseReplies(w.keys.dead, len(repeatAfter), nil)
	if _, err := s.Isolate(t.Context(), ds[1], []byte("charged")); err == nil {
		t.Fatal("isolate succeeded without a reply")
	}
	w.settleAll(s, core.VerdictDone, ds[1])
	if n := len(w.processing()); n != 0 {
		t.Fatalf("%d jobs in processing", n)
	}
}

func TestAReleaseAfterAnIsolationWithoutReplyIsNotCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.proxied()
	s, _ := w.open(quick)
	w.push(job("warm"), job("a"))
	ds := w.receive(s, 2)
	w.settleAll(s, core.VerdictDone, ds[0])
	p.LoseReplies(w.keys.dead, len(repeatAfter), nil)
	if _, err := s.Isolate(t.Context(), ds[1], []byte("charged")); err == nil {
		t.Fatal("isolate succeeded without a reply")
	}
	if got := w.processing(); !slices.Equal(got, []string{"charged"}) {
		t.Fatalf("processing: %q", got)
	}
	w.settleAll(s, core.VerdictRelease, ds[1])
	if got := w.list(w.keys.ready); !slices.Equal(got, []string{job("a")}) {
		t.Fatalf("ready: %q", got)
	}
}

func TestB46_DeadLetterCap(t *testing.T) {
	t.Parallel()
	kill := func(t *testing.T, w *world, s *source, n int) (settled int, errs []error) {
		w.push(jobs(n)...)
		ds := w.receive(s, n)
		batch := make([]core.Settlement, n)
		for i, d := range ds {
			batch[i] = core.Settlement{D: d, Verdict: core.VerdictDead, Dead: deadRecord(t, d)}
		}
		errs = w.settle(s, batch...)
		for _, err := range errs {
			if err == nil {
				settled++
			}
		}
		return settled, errs
	}
	t.Run("without a cap all are kept", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s, _ := w.open(quick)
		if n, errs := kill(t, w, s, 150); n != 150 || len(w.list(w.keys.dead)) != 150 {
			t.Fatalf("%d settled: %v", n, errors.Join(errs...))
		}
	})
	t.Run("stop keeps the rest unsettled", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s, _ := w.open(quick, func(b *core.Binding) {
			b.DeadLetters = core.DeadLetterPolicy{MaxLen: 100, OnFull: core.OnFullStop}
		})
		n, errs := kill(t, w, s, 150)
		if n != 100 || len(w.list(w.keys.dead)) != 100 || len(w.processing()) != 50 || !errors.Is(errs[149], core.ErrDeadLettersFull) {
			t.Fatalf("%d settled, %d dead, %d in processing: %v", n, len(w.list(w.keys.dead)), len(w.processing()), errs[149])
		}
	})
	t.Run("drop_oldest names what it drops", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s, n := w.open(quick, func(b *core.Binding) {
			b.DeadLetters = core.DeadLetterPolicy{MaxLen: 100, OnFull: core.OnFullDropOldest}
		})
		if settled, errs := kill(t, w, s, 150); settled != 150 {
			t.Fatalf("%d settled: %v", settled, errors.Join(errs...))
		}
		var ids []string
		for _, ev := range n.of(core.EventDeadOverflow) {
			ids = append(ids, ev.IDs...)
		}
		if len(ids) != 50 || ids[0] != "j00000" || ids[49] != "j00049" {
			t.Fatalf("dropped %q", ids)
		}
		kept := w.list(w.keys.dead)
		if len(kept) != 100 || deadletter.Read([]byte(kept[0])).ID != "j00050" {
			t.Fatalf("kept %d from %q", len(kept), kept[0])
		}
	})
}
