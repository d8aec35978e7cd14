package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/core"
)

func z(score float64, member string) goredis.Z { return goredis.Z{Score: score, Member: member} }

// serverNow is the server's clock.
func (w *world) serverNow() time.Time {
	w.Helper()
	now, err := w.raw.Time(context.Background()).Result()
	if err != nil {
		w.Fatal(err)
	}
	return now
}

func TestDelayedJobsRunInTheOrderOfTheirDueTimesAndNeverEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(Options{})
	p, err := s.driver.OpenPublisher(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	start := w.serverNow()
	var msgs []core.Message
	for i := range 200 {
		at := (i * 37) % 200 // not in their order
		msgs = append(msgs, core.Message{Body: fmt.Appendf(nil, `{"n":%03d}`, at), Delay: 200*time.Millisecond + time.Duration(at)*5*time.Millisecond})
	}
	if errs := p.Publish(t.Context(), msgs); errs != nil {
		t.Fatal(errs)
	}
	var late time.Duration
	for i := range 200 {
		d := w.receive(s, 1)[0]
		if want := fmt.Sprintf(`{"n":%03d}`, i); string(d.Body) != want {
			t.Fatalf("got %s, want %s", d.Body, want)
		}
		due := start.Add(200*time.Millisecond + time.Duration(i)*5*time.Millisecond)
		now := w.serverNow()
		if now.Before(due) {
			t.Fatalf("job %d is %s early", i, due.Sub(now))
		}
		late = max(late, now.Sub(due))
		w.settleAll(s, core.VerdictDone, d)
	}
	t.Logf("at most %s late", late)
}

func TestTheBellWakesThePromoterForAnEarlierDueTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(Options{DelayPoll: time.Hour}) // only the bell can help
	w.push(jobs(2)...)
	ds := w.receive(s, 2)
	w.blocked(1)
	retry := func(d *core.Delivery, delay time.Duration) {
		if err := w.settle(s, core.Settlement{D: d, Verdict: core.VerdictRetry, Next: d.Body, Delay: delay})[0]; err != nil {
			t.Fatal(err)
		}
	}
	retry(ds[0], 30*time.Minute)
	retry(ds[1], 50*time.Millisecond)
	if d := w.receive(s, 1)[0]; !slices.Equal(d.Body, ds[1].Body) {
		t.Fatalf("got %s", d.Body)
	}
}

func TestForeignDelayedJobsAreSeenWithinThePoll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(Options{DelayPoll: 100 * time.Millisecond})
	now := float64(w.serverNow().UnixMilli())
	w.raw.ZAdd(t.Context(), w.keys.delay, z(now+300, "soon"), z(0, "zero"), z(-5, "negative"), z(now+1e15, "never"))
	if got := bodies(w.receive(s, 3)); !slices.Equal(got, []string{"negative", "zero", "soon"}) {
		t.Fatalf("got %q", got)
	}
	if w.delayed() != 1 {
		t.Fatal("the far one is gone")
	}
}

func TestB31_TwoPromotersMoveEachDueJobOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 20_000
	due := float64(w.serverNow().Add(1500 * time.Millisecond).UnixMilli())
	members := make([]goredis.Z, n)
	for i := range members {
		members[i] = z(due, job(fmt.Sprint(i)))
	}
	for part := range slices.Chunk(members, 1000) {
		w.raw.ZAdd(t.Context(), w.keys.delay, part...)
	}
	_, one := w.open(Options{})
	_, two := w.open(Options{})

	pings, stop := context.WithCancel(t.Context())
	var worst time.Duration
	var pinger sync.WaitGroup
	pinger.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-pings.Done():
				return
			case <-tick.C:
			}
			start := time.Now()
			if w.raw.Ping(pings).Err() == nil {
				worst = max(worst, time.Since(start))
			}
		}
	})
	w.eventually("all are promoted", func() bool { return w.delayed() == 0 })
	stop()
	pinger.Wait()
	ids := map[string]bool{}
	ready := w.list(w.keys.ready)
	for _, body := range ready {
		var j struct{ JobID string }
		if err := json.Unmarshal([]byte(body), &j); err != nil {
			t.Fatal(err)
		}
		ids[j.JobID] = true
	}
	if len(ready) != n || len(ids) != n {
		t.Fatalf("%d jobs, %d ids", len(ready), len(ids))
	}
	for _, n := range []*ear{one, two} {
		if s := n.now(); !s.Ready {
			t.Fatalf("not ready: %s", s.Reason)
		}
	}
	if worst > 250*time.Millisecond {
		t.Fatalf("a ping took %s", worst)
	}
	t.Logf("worst ping %s", worst)
}

// The driver has no clock to inject: it may measure how long something takes, but
// every due time and lease is made and compared at the server. So the machine's
// clock cannot matter, and this is what the test holds on to.
func TestB37_NoClockButTheServersCounts(t *testing.T) {
	t.Parallel()
	t.Run("retries wait as long as they should", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s, n := w.open(quick)
		w.push(jobs(3)...)
		for i, d := range w.receive(s, 3) {
			delay := 300*time.Millisecond + time.Duration(i)*100*time.Millisecond
			asked := w.serverNow()
			if err := w.settle(s, core.Settlement{D: d, Verdict: core.VerdictRetry, Next: d.Body, Delay: delay})[0]; err != nil {
				t.Fatal(err)
			}
			again := w.receive(s, 1)
			if waited := w.serverNow().Sub(asked); waited < delay || waited > delay+1500*time.Millisecond {
				t.Fatalf("waited %s, want %s", waited, delay)
			}
			w.settleAll(s, core.VerdictDone, again...)
		}
		if len(n.of(core.EventRedelivered)) != 0 {
			t.Fatal("a consumer was declared dead")
		}
	})
	t.Run("the code reads no wall clock", func(t *testing.T) {
		t.Parallel()
		for file, source := range driverSources(t) {
			// Inspect shows people the age of a job by createdAt, in seconds; it
			// decides nothing.
			for _, word := range []string{".Unix()", ".UnixMilli()", ".UnixMicro()", ".UnixNano()", "time.Until(", ".Round(0)"} {
				if strings.Contains(source, word) {
					t.Errorf("%s uses %s", file, word)
				}
			}
		}
	})
}
