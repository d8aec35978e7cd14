package drivertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goconsumer/consumer/core"
)

// inShapes runs a test on the virtual clock for every shape that fits.
func inShapes(t *testing.T, fits func(Shape) bool, test func(t *testing.T, m *Memory)) {
	t.Parallel()
	for _, shape := range Shapes() {
		if fits == nil || fits(shape) {
			t.Run(shape.Name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { test(t, NewMemory(shape)) })
			})
		}
	}
}

// ear is a Notices that keeps what it hears; revoked lanes are drained at once
// unless drained is set.
type ear struct {
	mu      sync.Mutex
	states  []core.Status
	events  []core.Event
	revoked [][]core.Lane
	drained chan struct{}
}

func (e *ear) State(s core.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.states = append(e.states, s)
}

func (e *ear) Event(ev *core.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, *ev)
}

func (e *ear) Revoking(lanes []core.Lane, _ time.Time) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.revoked = append(e.revoked, lanes)
	if e.drained != nil {
		return e.drained
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

func binding() core.Binding {
	return core.Binding{Process: "p", Queue: "q", Concurrency: 4, Logger: slog.New(slog.DiscardHandler)}
}

func open(t *testing.T, d core.Driver, n core.Notices) core.Source {
	t.Helper()
	s, err := d.OpenSource(t.Context(), binding(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func publish(t *testing.T, d core.Driver, delay time.Duration, bodies ...string) {
	t.Helper()
	p, err := d.OpenPublisher(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range bodies {
		if errs := p.Publish(t.Context(), []core.Message{{Body: []byte(body), Delay: delay}}); errs != nil {
			t.Fatal(errs)
		}
	}
}

// receive takes n deliveries, however many calls that needs.
func receive(t *testing.T, s core.Source, n int) []*core.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all []*core.Delivery
	for len(all) < n {
		ds, err := s.Receive(ctx, n-len(all))
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 0 {
			t.Fatalf("got %d deliveries, want %d", len(all), n)
		}
		all = append(all, ds...)
	}
	return all
}

func receivesNothing(t *testing.T, s core.Source) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if ds, err := s.Receive(ctx, 100); len(ds) > 0 || err != nil {
		t.Fatalf("got %v, %v, want nothing", bodies(ds), err)
	}
}

// settle settles one delivery and waits for the answer.
func settle(s core.Source, item core.Settlement) error {
	answer := make(chan error, 1)
	s.Settle([]core.Settlement{item}, func(_ int, err error) { answer <- err })
	return <-answer
}

func mustSettle(t *testing.T, s core.Source, item core.Settlement) {
	t.Helper()
	if err := settle(s, item); err != nil {
		t.Fatal(err)
	}
}

func bodies(ds []*core.Delivery) []string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = string(d.Body)
	}
	slices.Sort(out)
	return out
}

func TestADoneMessageIsGone(t *testing.T) {
	inShapes(t, nil, func(t *testing.T, m *Memory) {
		d := m.Open()
		publish(t, d, 0, "a", "b")
		s := open(t, d, &ear{})
		for _, got := range receive(t, s, 2) {
			mustSettle(t, s, core.Settlement{D: got, Verdict: core.VerdictDone})
		}
		if held := m.Held("q"); held.Waiting() != 0 || len(held.Dead) != 0 {
			t.Errorf("still held: %+v", held)
		}
	})
}

func TestARetryComesBackExactlyWhenItIsDue(t *testing.T) {
	inShapes(t, nil, func(t *testing.T, m *Memory) {
		d := m.Open()
		publish(t, d, 0, "a")
		s := open(t, d, &ear{})
		first := receive(t, s, 1)[0]
		start := time.Now()
		item := core.Settlement{D: first, Verdict: core.VerdictRetry, Delay: 5 * time.Second}
		if !m.shape.InPlace {
			item.Next = []byte("a2")
		}
		mustSettle(t, s, item)
		second := receive(t, s, 1)[0]
		if waited := time.Since(start); waited != 5*time.Second {
			t.Errorf("came back after %v, want 5s", waited)
		}
		if want := map[bool]string{true: "a", false: "a2"}[m.shape.InPlace]; string(second.Body) != want {
			t.Errorf("body %q, want %q", second.Body, want)
		}
		if m.shape.InPlace && second.Attempt != 2 {
			t.Errorf("attempt %d, want 2", second.Attempt)
		}
	})
}

func TestAReleasedMessageComesBackFirstAndUncharged(t *testing.T) {
	inShapes(t, func(s Shape) bool { return s.Partitions == 0 }, func(t *testing.T, m *Memory) {
		d := m.Open()
		publish(t, d, 0, "a", "b", "c")
		s := open(t, d, &ear{})
		first := receive(t, s, 1)[0]
		mustSettle(t, s, core.Settlement{D: first, Verdict: core.VerdictRelease})
		again := receive(t, s, 3)
		if string(again[0].Body) != "a" || again[0].Found.N != 0 || again[0].Attempt != first.Attempt {
			t.Errorf("got %+v first", again[0])
		}
	})
}

func TestAVanishedSourceLeavesItsDeliveriesCounted(t *testing.T) {
	inShapes(t, nil, func(t *testing.T, m *Memory) {
		d := m.Open()
		publish(t, d, 0, "a", "b")
		held := receive(t, open(t, d, &ear{}), 2)
		d.Crash()
		next := open(t, m.Open(), &ear{})
		again := receive(t, next, 2)
		for _, got := range again {
			if got.Found.N != 1 {
				t.Errorf("found %d times, want 1", got.Found.N)
			}
			mustSettle(t, next, core.Settlement{D: got, Verdict: core.VerdictDone})
		}
		if !slices.Equal(bodies(held), bodies(again)) {
			t.Errorf("got %v, want %v", bodies(again), bodies(held))
		}
	})
}

func TestACutConnectionRaisesOnlyAnUpperBoundCount(t *testing.T) {
	inShapes(t, func(s Shape) bool { return s.Lease == 0 }, func(t *testing.T, m *Memory) {
		d := m.Open()
		publish(t, d, 0, "a")
		s := open(t, d, &ear{})
		held := receive(t, s, 1)[0]
		d.Cut()
		if _, err := s.Receive(t.Context(), 1); err == nil {
			t.Error("Receive does not notice the cut")
		}
		err := settle(s, core.Settlement{D: held, Verdict: core.VerdictDone})
		if m.shape.CrashCount != core.SupportWeaker {
			if err != nil {
				t.Errorf("settling after a cut: %v", err)
			}
			return
		}
		if !errors.Is(err, core.ErrStale) {
			t.Errorf("settling after a cut: %v, want ErrStale", err)
		}
		<-held.Lost
		if again := receive(t, s, 1)[0]; again.Found.N != 1 || again.Found.Exact {
			t.Errorf("found %+v, want an upper bound of 1", again.Found)
		}
	})
}

func TestStaleResultsChangeNothing(t *testing.T) {
	inShapes(t, nil, func(t *testing.T, m *Memory) {
		d := m.Open()
		publish(t, d, 0, "a")
		old := open(t, d, &ear{})
		held := receive(t, old, 1)[0]
		d.Expire()
		<-held.Lost
		s := old
		again := receive(t, s, 1)[0]
		for _, v := range []core.Verdict{core.VerdictDone, core.VerdictRetry, core.VerdictRelease, core.VerdictDead} {
			err := settle(old, core.Settlement{D: held, Verdict: v, Next: []byte("x"), Dead: &core.DeadRecord{}})
			if !errors.Is(err, core.ErrStale) {
				t.Errorf("verdict %d: %v, want ErrStale", v, err)
			}
		}
		if held := m.Held("q"); held.Waiting() != 1 || len(held.Dead) != 0 {
			t.Errorf("held %+v, want the one in flight", held)
		}
		mustSettle(t, s, core.Settlement{D: again, Verdict: core.VerdictDone})
	})
}

func TestALostReplyIsNotAppliedTwice(t *testing.T) {
	inShapes(t, nil, func(t *testing.T, m *Memory) {
		d := m.Open()
		publish(t, d, 0, "a")
		s := open(t, d, &ear{})
		held := receive(t, s, 1)[0]
		m.Inject(Fault{Op: OpSettle, Times: 1, LoseReply: true})
		item := core.Settlement{D: held, Verdict: core.VerdictRetry, Next: []byte("a2"), Delay: time.Second}
		if err := settle(s, item); err == nil {
			t.Fatal("the reply was not lost")
		}
		mustSettle(t, s, item)
		if held := m.Held("q"); held.Waiting() != 1 {
			t.Errorf("held %+v, want one", held)
		}
	})
}

func TestAFaultHitsTheCallsThatItNames(t *testing.T) {
	inShapes(t, nil, func(t *testing.T, m *Memory) {
		d := m.Open()
		publish(t, d, 0, "a", "b", "c")
		s := open(t, d, &ear{})
		refused := errors.New("refused")
		hold := make(chan struct{})
		m.Inject(Fault{Op: OpSettle, Match: func(b []byte) bool { return string(b) == "b" }, Times: 1, Err: refused})
		m.Inject(Fault{Op: OpSettle, Match: func(b []byte) bool { return string(b) == "c" }, Hold: hold})
		var batch []core.Settlement
		for _, got := range receive(t, s, 3) {
			batch = append(batch, core.Settlement{D: got, Verdict: core.VerdictDone})
		}
		answers := make(chan string, 3)
		s.Settle(batch, func(i int, err error) { answers <- fmt.Sprint(string(batch[i].D.Body), " ", err) })
		got := []string{<-answers, <-answers}
		slices.Sort(got)
		if want := []string{"a <nil>", "b refused"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		synctest.Wait()
		if len(answers) != 0 {
			t.Error("c was settled before its hold ended")
		}
		close(hold)
		if got := <-answers; got != "c <nil>" {
			t.Errorf("got %v", got)
		}
	})
}

func TestDownFailsEveryCallUntilUp(t *testing.T) {
	inShapes(t, nil, func(t *testing.T, m *Memory) {
		d := m.Open()
		n := &ear{}
		s := open(t, d, n)
		m.Down()
		if _, err := s.Receive(t.Context(), 1); err == nil {
			t.Error("Receive worked")
		}
		if _, err := d.OpenPublisher(t.Context(), binding()); err == nil {
			t.Error("OpenPublisher worked")
		}
		m.Up()
		publish(t, d, 0, "a")
		for range 2 { // the cut connection may show once more
			if ds, err := s.Receive(t.Context(), 1); err == nil {
				mustSettle(t, s, core.Settlement{D: ds[0], Verdict: core.VerdictDone})
				break
			}
		}
		ready := make([]bool, 0, 3)
		for _, st := range n.states {
			ready = append(ready, st.Ready)
		}
		if !slices.Equal(slices.Compact(ready), []bool{true, false, true}) {
			t.Errorf("states %+v, want ready, not ready, ready", n.states)
		}
	})
}

func TestACommitStopsAtTheFirstGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shape := Lanes()
		shape.Partitions = 1
		m := NewMemory(shape)
		d := m.Open()
		publish(t, d, 0, "a", "b", "c", "d")
		s := open(t, d, &ear{})
		ds := receive(t, s, 4)
		for _, i := range []int{0, 2, 3} {
			mustSettle(t, s, core.Settlement{D: ds[i], Verdict: core.VerdictDone})
		}
		d.Crash()
		next := open(t, m.Open(), &ear{})
		if again := receive(t, next, 1)[0]; string(again.Body) != "b" || again.Ref != "q/0/1" {
			t.Errorf("got %s at %s, want b at q/0/1", again.Body, again.Ref)
		}
		receivesNothing(t, next)
	})
}

func TestLanesMoveWhenTheyAreDrainedOrTheirTimeIsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Lanes())
		publish(t, m.Open(), 0, "a", "b", "c", "d")
		n := &ear{drained: make(chan struct{})}
		old := open(t, m.Open(), n)
		held := receive(t, old, 4)
		start := time.Now()
		next := open(t, m.Open(), &ear{})
		got := receive(t, next, 2)
		if waited := time.Since(start); waited != m.shape.Drain {
			t.Errorf("lanes moved after %v, want %v", waited, m.shape.Drain)
		}
		if len(n.revoked) != 1 || len(n.revoked[0]) != 2 {
			t.Errorf("revoked %v, want two lanes at once", n.revoked)
		}
		stale := 0
		for _, d := range held {
			if errors.Is(settle(old, core.Settlement{D: d, Verdict: core.VerdictDone}), core.ErrStale) {
				stale++
			}
		}
		if stale != 2 || got[0].Found.N != 0 {
			t.Errorf("%d stale results, want 2; found %d, want 0", stale, got[0].Found.N)
		}
	})
}

func TestALeaseLastsAsLongAsItIsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Leased())
		d := m.Open()
		publish(t, d, 0, "a", "b")
		s := open(t, d, &ear{})
		ds := receive(t, s, 2)
		x := s.(core.Extender)
		for range 5 {
			<-time.After(x.LeaseDuration() / 2)
			if errs := x.ExtendLease(t.Context(), ds[:1]); errs[0] != nil {
				t.Fatal(errs)
			}
		}
		<-ds[1].Lost
		if again := receive(t, s, 1)[0]; string(again.Body) != "b" || again.Found.N != 1 {
			t.Errorf("got %s found %d, want b found 1", again.Body, again.Found.N)
		}
		mustSettle(t, s, core.Settlement{D: ds[0], Verdict: core.VerdictDone})
		if errs := x.ExtendLease(t.Context(), ds); !errors.Is(errs[1], core.ErrStale) {
			t.Errorf("renewing what was lost: %v", errs[1])
		}
	})
}

func TestAnIsolatedJobIsFoundCharged(t *testing.T) {
	inShapes(t, nil, func(t *testing.T, m *Memory) {
		d := m.Open()
		publish(t, d, 0, "a")
		s := open(t, d, &ear{})
		alone, err := s.(core.Isolator).Isolate(t.Context(), receive(t, s, 1)[0], []byte("charged"))
		if err != nil {
			t.Fatal(err)
		}
		if alone == nil {
			alone = receive(t, s, 1)[0]
		}
		if string(alone.Body) != "charged" {
			t.Errorf("got %s", alone.Body)
		}
		d.Crash()
		if again := receive(t, open(t, m.Open(), &ear{}), 1)[0]; string(again.Body) != "charged" || again.Found.N != 1 {
			t.Errorf("got %s found %d", again.Body, again.Found.N)
		}
	})
}

func TestABoundedDeadLetterPlaceStopsOrDropsTheOldest(t *testing.T) {
	inShapes(t, nil, func(t *testing.T, m *Memory) {
		for _, policy := range []core.OnFull{core.OnFullStop, core.OnFullDropOldest} {
			d := m.Open()
			b := binding()
			b.Queue = string(policy)
			b.DeadLetters = core.DeadLetterPolicy{MaxLen: 1, OnFull: policy}
			m.Push(b.Queue, []byte("a"))
			m.Push(b.Queue, []byte("b"))
			n := &ear{}
			s, err := d.OpenSource(t.Context(), b, n)
			if err != nil {
				t.Fatal(err)
			}
			ds := receive(t, s, 2)
			dead := func(d *core.Delivery) error {
				record := &core.DeadRecord{Job: &core.Job{ID: string(d.Body)}, Reason: core.ReasonFailed}
				return settle(s, core.Settlement{D: d, Verdict: core.VerdictDead, Dead: record})
			}
			first, second := dead(ds[0]), dead(ds[1])
			held := m.Held(b.Queue)
			switch policy {
			case core.OnFullStop:
				if first != nil || !errors.Is(second, core.ErrDeadLettersFull) || held.Waiting() != 1 {
					t.Errorf("stop: %v, %v, %d waiting", first, second, held.Waiting())
				}
			case core.OnFullDropOldest:
				if first != nil || second != nil || len(held.Dead) != 1 || len(n.events) != 1 || n.events[0].IDs[0] != string(ds[0].Body) {
					t.Errorf("drop: %v, %v, held %+v, events %+v", first, second, held, n.events)
				}
			}
			if err := s.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestHigherPrioritiesComeFirst(t *testing.T) {
	inShapes(t, func(s Shape) bool { return s.Priority }, func(t *testing.T, m *Memory) {
		d := m.Open()
		b := binding()
		b.Priority = core.PriorityLevels
		p, err := d.OpenPublisher(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		for _, level := range []core.Priority{core.PriorityLow, core.PriorityNormal, core.PriorityCritical} {
			if errs := p.Publish(t.Context(), []core.Message{{Body: fmt.Append(nil, int(level)), Priority: level}}); errs != nil {
				t.Fatal(errs)
			}
		}
		var got []string
		for _, d := range receive(t, open(t, d, &ear{}), 3) {
			got = append(got, string(d.Body))
		}
		if want := []string{"-15", "0", "10"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestPausingAQueueHoldsEverythingBack(t *testing.T) {
	inShapes(t, nil, func(t *testing.T, m *Memory) {
		d := m.Open()
		publish(t, d, 0, "a")
		m.Pause("q")
		s := open(t, d, &ear{})
		receivesNothing(t, s)
		m.Resume("q")
		receive(t, s, 1)
	})
}
