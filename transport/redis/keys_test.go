package redis

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
)

func TestKeyStylesNameTheKeysThatOtherProgramsUse(t *testing.T) {
	t.Parallel()
	five := func(ready string) []string {
		return []string{ready + ":critical", ready + ":high", ready + ":medium", ready, ready + ":low"}
	}
	cases := map[string]struct {
		o                Options
		mode             core.PriorityMode
		lists            []string
		delay, dead, raw string
		processing       string
	}{
		"hashtag": {Options{}, core.PriorityNone, []string{"dq:ready:{orders}"}, "dq:delay:{orders}", "job:dead:{orders}", "job:dead:{orders}", "dq:processing:{orders}:"},
		"hashtag with levels": {Options{Prefix: "p"}, core.PriorityLevels, five("p:ready:{orders}"),
			"p:delay:{orders}", "job:dead:{orders}", "job:dead:{orders}", "p:processing:{orders}:"},
		"plain with levels": {Options{KeyStyle: KeyStylePlain}, core.PriorityLevels, five("dq:ready:orders"),
			"dq:delay:orders", "job:dead:orders", "job:dead:orders:raw", "dq:processing:orders:"},
		"swoolefy": {Options{KeyStyle: KeyStyleSwoolefy}, core.PriorityNone, []string{"orders:priority_queue", "orders"},
			"orders:retry_queue_sort", "job:dead:orders", "job:dead:orders:raw", "dq:processing:{orders}:"},
		"own names": {Options{KeyStyle: KeyStylePlain, Keys: Keys{Ready: "r", Priority: "p", Delay: "z", Dead: "x"}}, core.PriorityLevels, []string{"p", "r"},
			"z", "x", "x:raw", "dq:processing:orders:"},
		"one own name": {Options{Keys: Keys{Ready: "r"}}, core.PriorityLevels, five("r"), "dq:delay:{orders}", "job:dead:{orders}", "job:dead:{orders}", "dq:processing:{orders}:"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(binding(func(b *core.Binding) { b.Priority = test.mode }), test.o.withDefaults())
			if !slices.Equal(k.lists, test.lists) || k.delay != test.delay || k.dead != test.dead || k.deadRaw != test.raw || k.processing != test.processing {
				t.Errorf("keys are %+v", k)
			}
			if plain := k.lists[k.place(core.PriorityNormal)-1]; plain != k.ready {
				t.Errorf("normal jobs go to %s, not to %s", plain, k.ready)
			}
			for _, p := range core.Priorities() {
				if at := k.place(p); at < 1 || at > len(k.lists) {
					t.Errorf("%s has place %d of %d", p, at, len(k.lists))
				}
			}
		})
	}
}

// styled is a world with the keys of o.
func newStyled(t *testing.T, o Options, change ...func(*core.Binding)) *world {
	w := newWorld(t)
	w.keys = newKeys(binding(change...), o.withDefaults())
	return w
}

func TestRawInputIsBuriedApartWherePHPReadsTheDeadLetters(t *testing.T) {
	t.Parallel()
	o := quick
	o.KeyStyle = KeyStylePlain
	w := newStyled(t, o)
	w.push("", job("a"))
	s, _ := w.open(o)
	ds := w.receive(s, 2)
	a, err := core.Decode(ds[1].Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range w.settle(s,
		core.Settlement{D: ds[0], Verdict: core.VerdictDead, Dead: &core.DeadRecord{Raw: ds[0].Body, Reason: core.ReasonMalformed}},
		core.Settlement{D: ds[1], Verdict: core.VerdictDead, Dead: &core.DeadRecord{Job: a, Reason: core.ReasonFailed}},
	) {
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := w.driver(o).DeadLetters(binding(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// A sink's records go the same ways.
	if errs := store.Store(t.Context(), []*core.DeadRecord{{Raw: []byte("x"), Reason: core.ReasonMalformed}, {Job: a, Reason: core.ReasonExhausted}}); errs != nil {
		t.Fatal(errs)
	}
	if jobs, raw := len(w.list("job:dead:orders")), len(w.list("job:dead:orders:raw")); jobs != 2 || raw != 2 {
		t.Fatalf("%d dead jobs, %d raw inputs, want 2 and 2", jobs, raw)
	}
	var reasons []string
	if err := deadletter.Select(t.Context(), store, deadletter.Filter{}, func(e *deadletter.Entry) error {
		reasons = append(reasons, e.Record.Reason)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(reasons, " "); got != "failed exhausted malformed malformed" {
		t.Errorf("dead letters are %s", got)
	}
	stats, err := w.driver(o).Inspect(t.Context(), binding())
	if n, countErr := store.Count(t.Context()); err != nil || countErr != nil || n != 4 || *stats.Dead != 4 {
		t.Errorf("counted %d and %v, %v, %v", n, *stats.Dead, err, countErr)
	}
	port, err := w.driver(o).OpenPublisher(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	report, err := deadletter.Replay(t.Context(), store, port, deadletter.Filter{}, deadletter.ReplayOptions{})
	if err != nil || report.Replayed != 2 || report.Unreadable != 2 {
		t.Errorf("replay: %+v, %v", report, err)
	}
	if raw := len(w.list("job:dead:orders:raw")); raw != 2 || len(w.list("job:dead:orders")) > 0 {
		t.Errorf("after a replay %d raw inputs are left", raw)
	}
}

func TestDueTimesInSecondsAreNeverEarlyAndKeepPHPMembers(t *testing.T) {
	t.Parallel()
	o := quick
	o.KeyStyle = KeyStyleSwoolefy
	w := newStyled(t, o)
	s, _ := w.open(o)
	php := `{"v":1,"jobId":"php","jobType":"t","payload":{},"meta":[],"attempt":1,"maxAttempts":5,"createdAt":1,"__id":"0a","__retry_num":2,"__timestamp":9}`
	w.push(php, job("own"))
	for _, d := range w.receive(s, 2) {
		start := time.Now()
		if err := w.settle(s, core.Settlement{D: d, Verdict: core.VerdictRetry, Next: d.Body, Delay: 1200 * time.Millisecond})[0]; err != nil {
			t.Fatal(err)
		}
		member := w.raw.ZRangeWithScores(t.Context(), "orders:retry_queue_sort", -1, -1).Val()[0]
		body := member.Member.(string)
		if early := time.UnixMilli(int64(member.Score * 1000)).Sub(start); early < 1200*time.Millisecond || early > 2300*time.Millisecond {
			t.Errorf("due %s after its retry", early)
		}
		if idOf(w, body) == "php" && body != php {
			t.Errorf("PHP's job came to be\n%s", body)
		}
		if idOf(w, body) == "own" && (!strings.Contains(body, `,"__id":"`) || !strings.HasSuffix(body, `,"__retry_num":1}`)) {
			t.Errorf("PHP cannot retry %s", body)
		}
		again := w.receive(s, 1)
		if took := time.Since(start); took < 1200*time.Millisecond || took > 4*time.Second {
			t.Errorf("it came again after %s", took)
		}
		w.settleAll(s, core.VerdictDone, again...)
	}
}

func TestConsumersOfOtherListsWithTheSameQueueNameAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	swoolefy := quick
	swoolefy.KeyStyle = KeyStyleSwoolefy
	for _, id := range []string{"dead", "dead" + newKeys(binding(), swoolefy.withDefaults()).kin} {
		w.pushTo(w.keys.processing+id, job(id))
		w.raw.SAdd(t.Context(), w.keys.members, id)
	}
	w.open(quick)
	w.eventually("the own kin's job is back", func() bool { return len(w.list(w.keys.ready)) == 1 })
	w.open(swoolefy)
	w.eventually("the other's job is back, too", func() bool { return len(w.list("orders")) == 1 })
	if own := w.list(w.keys.ready); !slices.Equal(own, []string{job("dead")}) {
		t.Errorf("in %s are %v", w.keys.ready, own)
	}
}
