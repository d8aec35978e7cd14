package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
)

// leveled is a world whose keys are those of priority: levels.
func newLeveled(t *testing.T, serverArgs ...string) *world {
	w := newWorld(t, serverArgs...)
	w.keys = newKeys(binding(byLevel), Options{}.withDefaults())
	return w
}

func byLevel(b *core.Binding) { b.Priority = core.PriorityLevels }

// levelJob is an envelope with this meta.priority, as JSON.
func levelJob(id, priority string) string {
	return strings.Replace(job(id), `"meta":{}`, `"meta":{"priority":`+priority+`}`, 1)
}

// pushTo puts bodies into one list as any producer does.
func (w *world) pushTo(list string, bodies ...string) {
	w.Helper()
	for _, body := range bodies {
		if err := w.raw.LPush(w.Context(), list, body).Err(); err != nil {
			w.Fatal(err)
		}
	}
}

// byList is what each ready list holds, next to run first.
func (w *world) byList() map[string][]string {
	w.Helper()
	out := map[string][]string{}
	for _, list := range w.keys.lists {
		for _, body := range w.list(list) {
			short := strings.TrimPrefix(strings.TrimPrefix(list, w.keys.ready), ":")
			out[short] = append(out[short], idOf(w, body))
		}
	}
	return out
}

func (w *world) wantLists(want map[string][]string) {
	w.Helper()
	if got := w.byList(); fmt.Sprint(got) != fmt.Sprint(want) {
		w.Fatalf("the lists hold %v, want %v", got, want)
	}
}

func idOf(w *world, body string) string {
	w.Helper()
	j, err := core.Decode([]byte(body))
	if err != nil {
		w.Fatal(err)
	}
	return j.ID
}

func idsOf(w *world, ds []*core.Delivery) []string {
	w.Helper()
	var out []string
	for _, d := range ds {
		out = append(out, idOf(w, string(d.Body)))
	}
	return out
}

func TestPriorityListsAreEmptiedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	w := newLeveled(t)
	for i, list := range slices.Backward(w.keys.lists) {
		for n := range 3 {
			w.pushTo(list, job(fmt.Sprintf("%d%d", i, n)))
		}
	}
	s, _ := w.open(quick, byLevel)
	var got []string
	for _, n := range []int{1, 4, 3, 7} {
		ds := w.receive(s, n)
		got = append(got, idsOf(w, ds)...)
		w.settleAll(s, core.VerdictDone, ds...)
	}
	if want := []string{"00", "01", "02", "10", "11", "12", "20", "21", "22", "30", "31", "32", "40", "41", "42"}; !slices.Equal(got, want) {
		t.Errorf("came as %v, want %v", got, want)
	}
	w.close(s)
	w.wantKeys()
}

func TestDueJobsBecomeReadyOnTheListOfTheirPriority(t *testing.T) {
	t.Parallel()
	w := newLeveled(t)
	members := map[string]string{ // id → meta.priority
		"a": `"critical"`, "b": `-15`, "c": `"-12.5"`, "d": `"high"`, "e": `-9`, "f": `"medium"`, "g": `-2.5`,
		"h": `"normal"`, "i": `5`, "j": `"urgent"`, "k": `null`, "l": `{}`, "m": `"low"`, "n": `5.1`, "o": `1e999`, "p": `"0x10"`, "q": `" 10"`,
	}
	ids := slices.Sorted(func(yield func(string) bool) {
		for id := range members {
			if !yield(id) {
				return
			}
		}
	})
	want := map[string][]string{}
	for i, id := range ids {
		body := levelJob(id, members[id])
		w.raw.ZAdd(t.Context(), w.keys.delay, z(float64(i+1), body))
		list := strings.TrimPrefix(strings.TrimPrefix(w.keys.lists[w.keys.placeOf([]byte(body))-1], w.keys.ready), ":")
		want[list] = append(want[list], id)
	}
	w.raw.ZAdd(t.Context(), w.keys.delay, z(99, job("x")), z(100, "priority of no JSON"))
	want[""] = append(want[""], "x")
	s, _ := w.open(quick, byLevel)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.eventually("everything is promoted", func() bool { return w.delayed() == 0 })
	w.raw.LRem(t.Context(), w.keys.ready, 0, "priority of no JSON")
	w.wantLists(want)
	if !slices.Equal(want["critical"], []string{"a", "b", "c"}) || !slices.Equal(want["low"], []string{"m", "n", "o"}) {
		t.Errorf("levels are read as %v", want)
	}
}

func TestB40_AJobComesBackOnItsOwnPriorityList(t *testing.T) {
	t.Parallel()
	w := newLeveled(t)
	s, _ := w.open(quick, byLevel)
	take := func(list, body string) *core.Delivery {
		w.pushTo(w.keys.ready+list, body)
		return w.receive(s, 1)[0]
	}
	next := func(d *core.Delivery) []byte {
		j, err := core.Decode(d.Body)
		if err != nil {
			t.Fatal(err)
		}
		j.Attempt++
		return j.Append(nil)
	}
	high := take(":high", levelJob("with", `"high"`))
	bare := take(":high", job("bare"))
	low := take(":low", levelJob("low", `10`))
	plain := take("", job("plain"))
	for _, err := range w.settle(s,
		core.Settlement{D: high, Verdict: core.VerdictRetry, Next: next(high)},
		core.Settlement{D: bare, Verdict: core.VerdictRetry, Next: next(bare), Delay: 20 * time.Millisecond},
		core.Settlement{D: low, Verdict: core.VerdictDefer, Next: next(low), Delay: time.Millisecond},
		core.Settlement{D: plain, Verdict: core.VerdictRetry, Next: next(plain)},
	) {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("the delayed ones are ready", func() bool { return w.delayed() == 0 })
	w.wantLists(map[string][]string{"high": {"with", "bare"}, "": {"plain"}, "low": {"low"}})
	if body := w.list(w.keys.ready + ":high")[0]; body != string(next(high)) {
		t.Errorf("the retry is\n%s\nwant\n%s", body, next(high))
	}
	if body := w.list(w.keys.ready + ":high")[1]; !strings.Contains(body, `"meta":{"priority":"high"}`) {
		t.Errorf("a job without a priority does not keep that of its list: %s", body)
	}

	// A release puts each back in front of its own list, as it was.
	again := w.receive(s, 4)
	w.settleAll(s, core.VerdictRelease, again...)
	w.wantLists(map[string][]string{"high": {"with", "bare"}, "": {"plain"}, "low": {"low"}})

	// A replay of a dead letter goes there, too.
	dead := w.receive(s, 1)[0]
	j, err := core.Decode(dead.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range w.settle(s, core.Settlement{D: dead, Verdict: core.VerdictDead, Dead: &core.DeadRecord{Job: j, Reason: core.ReasonFailed}}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if entry := w.list(w.keys.dead)[0]; !strings.Contains(entry, `"priority":"high"`) {
		t.Errorf("the dead letter lost its priority: %s", entry)
	}
}

func TestOrphansGoBackToTheirOwnLists(t *testing.T) {
	t.Parallel()
	w := newLeveled(t)
	orphan := w.keys.processing + "gone"
	for i, priority := range []string{`"high"`, `"low"`, `null`, `"high"`, `"critical"`, `null`} { // as taken, oldest first
		w.pushTo(orphan, levelJob(fmt.Sprintf("j%d", i), priority))
	}
	w.raw.SAdd(t.Context(), w.keys.members, "gone")
	w.pushTo(w.keys.ready+":high", levelJob("waiting", `"high"`))
	s, _ := w.open(quick, byLevel)
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.eventually("the orphan's jobs are back", func() bool { return len(w.processing()) == 0 })
	w.wantLists(map[string][]string{"critical": {"j4"}, "high": {"j0", "j3", "waiting"}, "": {"j2", "j5"}, "low": {"j1"}})
}

func TestAnIdleSourceHearsOfAJobOnAnyOfItsListsAtOnce(t *testing.T) {
	t.Parallel()
	w := newLeveled(t)
	o := quick
	o.Block, o.DelayPoll = 10*time.Second, 10*time.Second
	s, _ := w.open(o, byLevel)
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range 200 {
		list := w.keys.lists[random.IntN(len(w.keys.lists))]
		pause := time.Duration(random.IntN(4)) * time.Millisecond
		push := time.AfterFunc(pause, func() { w.raw.LPush(context.Background(), list, job(strconv.Itoa(i))) })
		start := time.Now()
		ds := w.receive(s, 1)
		push.Stop()
		if took := time.Since(start) - pause; took > 3*time.Second {
			t.Fatalf("job %d on %s came %s after its push (seed %d)", i, list, took, seed)
		}
		w.settleAll(s, core.VerdictDone, ds...)
	}
}

func TestAServerThatCannotTellIsAskedWithinDelayPoll(t *testing.T) {
	t.Parallel()
	w := newLeveled(t)
	if err := w.raw.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", "-client|tracking").Err(); err != nil {
		t.Fatal(err)
	}
	w.url = "redis://worker:secret@" + w.server.Addr + "/0"
	o := quick
	o.Block = 10 * time.Second
	s, _ := w.open(o, byLevel)
	for _, list := range w.keys.lists {
		time.AfterFunc(50*time.Millisecond, func() { w.raw.LPush(context.Background(), list, job(list)) })
		start := time.Now()
		w.settleAll(s, core.VerdictDone, w.receive(s, 1)...)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: %s", list, took)
		}
	}
}

// TestListsThatNobodyUsesCostNothingWhileIdle counts what the server is asked while
// a source waits.
func TestListsThatNobodyUsesCostNothingWhileIdle(t *testing.T) {
	t.Parallel()
	w := newLeveled(t)
	o := quick
	o.Block, o.DelayPoll, o.Lease, o.Sweep = 30*time.Second, 30*time.Second, time.Minute, time.Minute
	s, _ := w.open(o, byLevel)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Receive(ctx, 1)
		ended <- err
	}()
	w.eventually("it waits for jobs and at the bell", func() bool {
		return w.raw.InfoMap(t.Context(), "clients").Val()["Clients"]["blocked_clients"] == "2"
	})
	last := int64(-1)
	w.eventually("half a second without a command", func() bool {
		now := w.commands()
		quiet := now == last
		last = now
		<-time.After(500 * time.Millisecond)
		return quiet
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// commands is how many the server has carried out, those inside scripts too.
func (w *world) commands() (sum int64) {
	w.Helper()
	info, err := w.raw.Info(context.Background(), "commandstats").Result()
	if err != nil {
		w.Fatal(err)
	}
	for line := range strings.Lines(info) {
		_, rest, ok := strings.Cut(line, ":calls=")
		if !ok || strings.HasPrefix(line, "cmdstat_info") {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			w.Fatal(err)
		}
		sum += n
	}
	return sum
}

// TestB28_WaitingSourcesLeaveConnectionsForEverythingElse has few connections, many
// slots and five lists; it is idle for longer than a lease in between.
func TestB28_WaitingSourcesLeaveConnectionsForEverythingElse(t *testing.T) {
	t.Parallel()
	w := newLeveled(t)
	o := Options{Pool: 4, Block: 5 * time.Second, Lease: 3 * time.Second}
	var runs ledger
	var mu sync.Mutex
	var costs []time.Duration
	var failed []error
	finished := map[string]time.Time{}
	worker := w.workOn(binding(byLevel, func(b *core.Binding) { b.Concurrency = 64 }), o, func(_ context.Context, j *core.Job) error {
		first := runs.note(j.ID) == 1
		mu.Lock()
		finished[j.ID] = time.Now()
		mu.Unlock()
		if first && strings.HasSuffix(j.ID, "7") {
			return core.RetryAfter(20*time.Millisecond, nil)
		}
		return nil
	}, func(e *core.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Kind {
		case core.EventFinished:
			costs = append(costs, time.Since(finished[e.Job.ID]))
		case core.EventSettleError:
			failed = append(failed, e.Err)
		}
	})
	load := func(name string) {
		for i := range 500 {
			w.pushTo(w.keys.lists[i%3], job(fmt.Sprintf("%s%d", name, i)))
		}
	}
	settled := func(n int) {
		w.eventually(fmt.Sprintf("%d jobs are settled", n), func() bool {
			return runs.distinct() == n && w.delayed() == 0 && len(w.processing()) == 0
		})
	}
	load("a")
	settled(500)

	for idle := time.Now(); time.Since(idle) < 7*time.Second; <-time.After(100 * time.Millisecond) {
		leases := w.raw.ZRangeWithScores(t.Context(), w.keys.consumers, 0, -1).Val()
		if len(leases) != 1 || leases[0].Score < float64(w.raw.Time(t.Context()).Val().UnixMilli()) {
			t.Fatalf("the leases are %v", leases)
		}
		if status := worker.engine.Status(); !status.Ready {
			t.Fatalf("not ready: %s", status.Reason)
		}
	}
	blocked := w.raw.InfoMap(t.Context(), "clients").Val()["Clients"]["blocked_clients"]
	if n, err := strconv.Atoi(blocked); err != nil || n > 2 {
		t.Errorf("%s clients are blocked at the server, want one for jobs and one for the bell", blocked)
	}

	load("b")
	settled(1000)
	if err := worker.end(); err != nil {
		t.Error(err)
	}
	if len(failed) > 0 {
		t.Errorf("settling failed: %v", failed)
	}
	slices.Sort(costs)
	p99 := costs[len(costs)*99/100]
	t.Logf("%d settlements, p99 %s", len(costs), p99)
	if p99 > 250*time.Millisecond {
		t.Errorf("p99 from a handler's end to its settlement is %s", p99)
	}
}
