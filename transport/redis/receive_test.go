package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/internal/testproxy"
)

// proxied puts a proxy between the driver and the server.
func (w *world) proxied() *testproxy.Proxy {
	p := testproxy.Start(w.T, w.server.Addr)
	w.url = "redis://" + p.Addr() + "/0"
	return p
}

// retry calls Receive until it works, as the engine does after an error.
func (w *world) receiveAfterFaults(s *source, n int) []*core.Delivery {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	var all []*core.Delivery
	for len(all) < n && ctx.Err() == nil {
		ds, _ := s.Receive(ctx, n-len(all))
		all = append(all, ds...)
	}
	if len(all) != n {
		w.Fatalf("received %d jobs, want %d", len(all), n)
	}
	return all
}

func TestReceiveTakesJobsInTheirOrderManyACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := jobs(100)
	w.push(in...)
	s, n := w.open(quick)
	ds, err := s.Receive(t.Context(), 40)
	if err != nil || len(ds) != 40 {
		t.Fatalf("got %d jobs, %v", len(ds), err)
	}
	ds = append(ds, w.receive(s, 60)...)
	if !slices.Equal(bodies(ds), texts(in)) {
		t.Fatal("the order changed")
	}
	if got := w.list(s.current.processing); !slices.Equal(got, texts(in)) {
		t.Fatal("the processing list is in another order")
	}
	if !n.now().Ready {
		t.Fatalf("not ready: %s", n.now().Reason)
	}
	w.settleAll(s, core.VerdictDone, ds...)
	w.close(s)
	w.wantKeys()
}

func TestReceiveWaitsForAJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(Options{})
	got := make(chan []*core.Delivery)
	go func() {
		ds, _ := s.Receive(t.Context(), 10)
		got <- ds
	}()
	w.blocked(2) // Receive and the bell
	w.push(job("a"))
	if ds := <-got; len(ds) != 1 || string(ds[0].Body) != job("a") {
		t.Fatalf("got %q", bodies(ds))
	}
}

// blocked waits until n clients wait at the server.
func (w *world) blocked(n int) {
	w.Helper()
	w.eventually("clients wait at the server", func() bool {
		info := w.raw.InfoMap(w.Context(), "clients").Item("Clients", "blocked_clients")
		return info == string(rune('0'+n))
	})
}

func TestReceiveEndsWithItsContextAndLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(Options{}) // waits of 5 s
	for i := range 30 {
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan []*core.Delivery)
		go func() {
			ds, err := s.Receive(ctx, 1)
			if err != nil {
				t.Error(err)
			}
			returned <- ds
		}()
		if i%3 != 0 { // the first kind ends before it waits
			w.blocked(2)
		}
		if i%3 == 2 { // the job and the end come together
			go w.raw.LPush(context.Background(), w.keys.ready, job("x"))
		}
		start := time.Now()
		cancel()
		ds := <-returned
		if took := time.Since(start); took > 2*time.Second {
			t.Fatalf("it took %s", took)
		}
		if i%3 == 2 && len(ds) == 0 {
			ds = w.receive(s, 1)
		}
		w.settleAll(s, core.VerdictDone, ds...)
	}
	w.close(s)
	w.wantKeys()
}

func TestReceiveHandsOutWhatALostClaimTook(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.proxied()
	s, _ := w.open(quick)
	w.push(jobs(1)...)
	w.settleAll(s, core.VerdictDone, w.receive(s, 1)...)

	in := append(jobs(20), job("twin"), job("twin"))
	held := func() []*core.Delivery { w.push(in[:2]...); return w.receive(s, 2) }()
	p.LoseReplies(s.driver.scripts.claim.Hash(), 1, nil)
	w.push(in[2:]...)
	if ds, err := s.Receive(t.Context(), 100); err == nil {
		t.Fatalf("received %d jobs although the reply was lost", len(ds))
	}
	ds := append(held, w.receiveAfterFaults(s, 20)...)
	if !slices.Equal(bodies(ds), texts(in)) {
		t.Fatalf("got %q", bodies(ds))
	}
	w.settleAll(s, core.VerdictDone, ds...)
	w.close(s)
	w.wantKeys()
}

func TestReceiveReportsTheKeyThatIsNoList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw.Set(t.Context(), w.keys.ready, "text", 0)
	s, n := w.open(quick)
	_, err := s.Receive(t.Context(), 1)
	if err == nil || n.now().Ready || !contains(n.now().Reason, w.keys.ready, "WRONGTYPE") {
		t.Fatalf("error %v, status %+v", err, n.now())
	}
	w.raw.Del(t.Context(), w.keys.ready)
	w.push(job("a"), "", "\xff\xfe") // what a PHP producer pushes when it cannot encode, and noise
	ds := w.receiveAfterFaults(s, 3)
	if !slices.Equal(bodies(ds), []string{job("a"), "", "\xff\xfe"}) || !n.now().Ready {
		t.Fatalf("got %q, status %+v", bodies(ds), n.now())
	}
	w.settleAll(s, core.VerdictDone, ds...)
}

func TestReceiveWorksWhenTheServersMemoryIsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.push(jobs(100)...)
	w.raw.ConfigSet(t.Context(), "maxmemory", "1")
	if err := w.raw.LPush(t.Context(), "x", "y").Err(); err == nil {
		t.Fatal("the memory is not full")
	}
	s, _ := w.open(quick)
	ds := w.receive(s, 100)
	if err := s.renew(); err != nil {
		t.Fatal(err)
	}
	for i, err := range w.settle(s, core.Settlement{D: ds[0], Verdict: core.VerdictRetry, Next: ds[0].Body, Delay: time.Hour},
		core.Settlement{D: ds[1], Verdict: core.VerdictRelease}, core.Settlement{D: ds[2], Verdict: core.VerdictDone}) {
		if err != nil {
			t.Errorf("item %d: %v", i, err)
		}
	}
	w.close(s)
	if ready, delayed := len(w.list(w.keys.ready)), w.delayed(); ready != 98 || delayed != 1 {
		t.Fatalf("%d ready, %d delayed", ready, delayed)
	}
}

func TestOpenSourceRefusesWhatNoRetryCanMend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw.Do(t.Context(), "ACL", "SETUSER", "reader", "on", ">canary", "~*", "+@all", "-lpush")
	setup := func(name, fix string, d *Driver, change ...func(*core.Binding)) {
		t.Helper()
		_, err := d.OpenSource(t.Context(), binding(change...), &ear{})
		var setup *core.SetupError
		if !errors.As(err, &setup) || contains(err.Error(), "canary") || !contains(err.Error(), fix) {
			t.Errorf("%s: %v", name, err)
		}
	}
	at := func(place string) *Driver {
		w.url = "redis://" + strings.Replace(place, "HOST", w.server.Addr, 1)
		return w.driver(quick)
	}
	setup("a missing right", "access to the keys", at("reader:canary@HOST"))
	setup("a wrong password", "correct user and password", at("reader:wrong-canary@HOST"))
	setup("a database that is not there", "number of a database", at("HOST/99"))
	setup("an unknown key style", "key_style", w.driver(quick), func(b *core.Binding) { b.Options = Options{KeyStyle: "php"} })
	setup("replicas", "wait_replicas", w.driver(quick), func(b *core.Binding) { b.Options = &Options{WaitReplicas: 1} })
	setup("foreign options", "", w.driver(quick), func(b *core.Binding) { b.Options = 1 })
	for _, url := range []string{"redis://user:canary@host:port/x", "http://user:canary@host/", "redis://u:can#ary@h:1", "canary"} {
		_, err := New(url, Options{})
		var setup *core.SetupError
		if !errors.As(err, &setup) || contains(err.Error(), "canary") || contains(err.Error(), "ary@") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestLargeBodiesAreMovedAFewAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(Options{Lease: time.Minute, Sweep: time.Hour, DelayPoll: time.Hour})
	const n, most = 12, 4
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("%02d%s", i, strings.Repeat("x", 3<<20)))
		w.raw.ZAdd(t.Context(), w.keys.delay, goredis.Z{Score: float64(i), Member: want[i]})
	}
	inSteps := func(what string, step func() (int, error)) {
		t.Helper()
		for total := 0; total < n; {
			moved, err := step()
			if err != nil || moved == 0 || moved > most {
				t.Fatalf("%s moved %d large bodies in one call (%v), want at most %d", what, moved, err, most)
			}
			total += moved
		}
	}
	inSteps("promote", func() (int, error) {
		moved, _, err := s.promote()
		return moved, err
	})
	var got []string
	claim := func() (int, error) {
		ds, err := s.claim(s.current, n)
		got = append(got, bodies(ds)...)
		return len(ds), err
	}
	inSteps("claim", claim)
	inSteps("release", func() (int, error) {
		moved, _, err := s.giveBack(t.Context(), s.current.id, "1")
		return moved, err
	})
	if !slices.Equal(got, want) {
		t.Error("the jobs were not claimed in the order of their due times")
	}
	if !slices.Equal(w.list(w.keys.ready), want) {
		t.Error("the jobs were not given back in their order")
	}
}
