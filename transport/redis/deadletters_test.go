package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
)

// replayEnv makes the test binary a replay in a process of its own; its value is
// the server's URL.
const replayEnv = "REDIS_TEST_REPLAY"

// replayAll replays every dead letter of the queue in batches of 20.
func replayAll(ctx context.Context, d *Driver, progress func(deadletter.Report)) (deadletter.Report, error) {
	b := binding()
	store, err := d.OpenDeadLetters(ctx, b)
	if err != nil {
		return deadletter.Report{}, err
	}
	port, err := d.OpenPublisher(ctx, b)
	if err != nil {
		return deadletter.Report{}, err
	}
	return deadletter.Replay(ctx, store, port, deadletter.Filter{}, deadletter.ReplayOptions{Batch: 20, Progress: progress})
}

// TestReplayProcess is no test: it is what the replay below runs and kills.
func TestReplayProcess(t *testing.T) {
	url := os.Getenv(replayEnv)
	if url == "" {
		return
	}
	d, err := New(url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = replayAll(t.Context(), d, func(r deadletter.Report) {
		if r.Replayed >= 300 {
			fmt.Println("300 are published")
			io.Copy(io.Discard, os.Stdin) // wait here to be killed
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestB47_ReplayLosesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const good, bad, unreadable = 490, 500, 10
	var records []any
	for i := range good + bad {
		kind := "good"
		if i%2 == 1 || i >= 2*good {
			kind = "bad"
		}
		records = append(records, fmt.Sprintf(`{"job":{"v":1,"jobId":"%s%03d","jobType":%q,"payload":{},"meta":{},"attempt":5,"maxAttempts":1,"createdAt":1},"error":"e","at":%d,"reason":"failed","queue":"orders","process":"job","transport":"redis"}`, kind, i, kind, i))
		if i%99 == 50 {
			records = append(records, fmt.Sprintf("garbage %d", i))
		}
	}
	w.raw.LPush(t.Context(), w.keys.dead, records...)
	want := map[string]bool{}
	for _, r := range records {
		if e := deadletter.Read([]byte(r.(string))); e.Err == nil {
			want[e.ID] = true
		}
	}
	if len(want) != good+bad || len(records)-len(want) != unreadable {
		t.Fatalf("%d jobs, %d records", len(want), len(records))
	}
	// Nowhere, or in two places, is none of them: they move in one step.
	conserved := func() {
		t.Helper()
		copies := 0
		seen := map[string]bool{}
		for _, body := range w.list(w.keys.ready) {
			j, err := core.Decode([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			seen[j.ID] = true
			copies++
		}
		for _, r := range w.list(w.keys.dead) {
			if e := deadletter.Read([]byte(r)); e.Err == nil {
				seen[e.ID] = true
				copies++
			}
		}
		for id := range want {
			if !seen[id] {
				t.Fatalf("job %s is nowhere", id)
			}
		}
		if copies != len(want) {
			t.Fatalf("%d jobs are there twice", copies-len(want))
		}
	}

	// Killed at about 300.
	cmd := exec.Command(os.Args[0], "-test.run=^TestReplayProcess$")
	cmd.Env = append(os.Environ(), replayEnv+"="+w.server.URL())
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != "300 are published"; {
	}
	cmd.Process.Kill()
	cmd.Wait()
	stdin.Close()
	conserved()

	// Cut at about 600.
	p := w.proxied()
	cut := w.driver(Options{})
	report, err := replayAll(t.Context(), cut, func(r deadletter.Report) {
		if r.Replayed >= 300 {
			p.Refuse(true)
			p.Cut()
		}
	})
	if err == nil {
		t.Fatal("the replay ended without an error although it was cut off")
	}
	p.Refuse(false)
	conserved()

	// To the end.
	report, err = replayAll(t.Context(), cut, nil)
	if err != nil || report.Unreadable != unreadable {
		t.Fatalf("%+v, %v", report, err)
	}
	conserved()
	if left := w.list(w.keys.dead); len(left) != unreadable || !strings.HasPrefix(left[0], "garbage") {
		t.Fatalf("%d entries are left", len(left))
	}

	// What fails again is dead again, with a fresh budget and its count.
	var runs ledger
	worker := w.work(quick, func(_ context.Context, j *core.Job) error {
		if j.Attempt != 1 {
			t.Errorf("job %s starts with attempt %d", j.ID, j.Attempt)
		}
		runs.note(j.ID)
		if j.Type == "bad" {
			return core.Retry(errors.New("again"))
		}
		return nil
	})
	w.eventually("all have run", func() bool { return len(w.list(w.keys.ready)) == 0 && len(w.processing()) == 0 })
	if err := worker.end(); err != nil {
		t.Fatal(err)
	}
	if runs.distinct() != good+bad {
		t.Fatalf("%d jobs ran", runs.distinct())
	}
	dead := map[string]int{}
	for _, r := range w.list(w.keys.dead) {
		if e := deadletter.Read([]byte(r)); e.Err == nil {
			dead[e.ID] = e.Record.Job.Meta.Replayed()
		}
	}
	if len(dead) != bad {
		t.Fatalf("%d are dead again", len(dead))
	}
	for id, replayed := range dead {
		if replayed != 1 {
			t.Fatalf("%s: replayed %d", id, replayed)
		}
	}

	store, err := cut.OpenDeadLetters(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	none, err := deadletter.Replay(t.Context(), store, nil, deadletter.Filter{ID: "unknown"}, deadletter.ReplayOptions{})
	if err != nil || none.Replayed != 0 {
		t.Fatalf("an unknown id: %+v, %v", none, err)
	}
}

func TestDeadLettersAreReadInPagesAndRemovedOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var records []any
	for i := range 350 {
		records = append(records, fmt.Sprintf(`{"job":null,"raw":"","at":%d}`, i/2)) // twins
	}
	w.raw.LPush(t.Context(), w.keys.dead, records...)
	store, err := w.driver(Options{}).OpenDeadLetters(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := store.Count(t.Context()); n != 350 || err != nil {
		t.Fatalf("count %d, %v", n, err)
	}
	var seen []string
	if err := store.Visit(t.Context(), func(page deadletter.Page) error {
		var remove []*deadletter.Entry
		for _, e := range page.Entries() {
			if len(seen)%2 == 0 {
				remove = append(remove, e)
			}
			seen = append(seen, string(e.Stored))
		}
		// What arrives meanwhile is at the other end.
		if err := w.raw.LPush(t.Context(), w.keys.dead, "new").Err(); err != nil {
			return err
		}
		for part := range slices.Chunk(remove, 7) {
			if n, err := page.Remove(t.Context(), part); n != len(part) || err != nil {
				return fmt.Errorf("removed %d of %d: %w", n, len(part), err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(seen, texts(records)) {
		t.Fatal("not every entry was seen once, oldest first")
	}
	left := slices.DeleteFunc(w.list(w.keys.dead), func(r string) bool { return r == "new" })
	if len(left) != 175 {
		t.Fatalf("%d are left", len(left))
	}
	for i, r := range left {
		if r != fmt.Sprintf(`{"job":null,"raw":"","at":%d}`, i) {
			t.Fatalf("left %d: %s", i, r)
		}
	}
}

// Others replay, purge or drop the oldest entries at the same time.
func TestDeadLettersThatMovedAreFoundAndThoseThatWentAreNotReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 60 {
		w.raw.LPush(t.Context(), w.keys.dead, fmt.Sprintf(`{"job":{"jobId":"j%02d","jobType":"t%d"},"at":1}`, i, i%2))
	}
	d := w.driver(Options{})
	store, err := d.OpenDeadLetters(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	port, err := d.OpenPublisher(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	popped := false
	report, err := deadletter.Replay(t.Context(), store, port, deadletter.Filter{Type: "t1"}, deadletter.ReplayOptions{Batch: 2, Progress: func(deadletter.Report) {
		if !popped { // j00 and j02 are still there, j01 and j03 have moved
			popped = true
			w.raw.RPopCount(t.Context(), w.keys.dead, 4)
		}
	}})
	if err != nil || report.Doubled != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	// What the removal hid from this visit is shown by the next.
	again, err := deadletter.Replay(t.Context(), store, port, deadletter.Filter{Type: "t1"}, deadletter.ReplayOptions{})
	if err != nil || report.Replayed+again.Replayed != 29 || again.Replayed > 2 {
		t.Fatalf("%+v, then %+v, %v", report, again, err)
	}
	var ready []string
	for _, body := range w.list(w.keys.ready) {
		j, err := core.Decode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		ready = append(ready, j.ID)
	}
	if !slices.IsSorted(ready[:report.Replayed]) {
		t.Fatalf("ready out of order: %q", ready)
	}
	slices.Sort(ready)
	if ready = slices.Compact(ready); len(ready) != 29 || slices.Contains(ready, "j05") || !slices.Contains(ready, "j07") {
		t.Fatalf("ready: %q", ready)
	}
	if left := w.list(w.keys.dead); len(left) != 27 || !slices.IsSorted(left) {
		t.Fatalf("dead: %q", left)
	}
}

func TestAReplayToAnotherServerDoublesABatchAtMost(t *testing.T) {
	t.Parallel()
	w, there := newWorld(t), newWorld(t)
	for i := range 90 {
		w.raw.LPush(t.Context(), w.keys.dead, fmt.Sprintf(`{"job":{"jobId":"j%02d","jobType":"t"},"at":1}`, i))
	}
	store, err := w.driver(Options{}).OpenDeadLetters(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	port, err := there.driver(Options{}).OpenPublisher(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	broken := &breakingPort{PublishPort: port, after: 3, then: w.server.Kill}
	report, err := deadletter.Replay(t.Context(), store, broken, deadletter.Filter{}, deadletter.ReplayOptions{Batch: 20})
	if err == nil || report.Replayed+report.Doubled != 36 || report.Doubled == 0 || report.Doubled > 20 {
		t.Fatalf("%+v, %v", report, err)
	}
	if n := len(there.list(there.keys.ready)); n != 36 { // pages of 4 and 32
		t.Fatalf("%d are published", n)
	}
}

// breakingPort does something after its nth publish.
type breakingPort struct {
	core.PublishPort
	after int
	then  func()
}

func (p *breakingPort) Publish(ctx context.Context, msgs []core.Message) []error {
	errs := p.PublishPort.Publish(ctx, msgs)
	if p.after--; p.after == 0 {
		p.then()
	}
	return errs
}

func TestAMoveThatTheServerRefusesChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.raw.LPush(t.Context(), w.keys.dead, `{"job":{"jobId":"j","jobType":"t"},"at":1}`)
	w.raw.Set(t.Context(), w.keys.ready, "text", 0)
	report, err := replayAll(t.Context(), w.driver(Options{}), nil)
	if err == nil || !contains(err.Error(), "WRONGTYPE") || report.Replayed != 0 || report.Doubled != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	if left := w.list(w.keys.dead); len(left) != 1 {
		t.Fatalf("%q are left", left)
	}
}

func TestDeadLettersOfOtherTransportsKeepTheCap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	record := func(n int) []*core.DeadRecord {
		out := make([]*core.DeadRecord, n)
		for i := range out {
			out[i] = &core.DeadRecord{Raw: fmt.Append(nil, i), Reason: core.ReasonMalformed, Queue: queue}
		}
		return out
	}
	open := func(onFull core.OnFull, dropped func(int, []string)) *DeadLetters {
		l, err := w.driver(Options{}).DeadLetters(binding(func(b *core.Binding) {
			b.DeadLetters = core.DeadLetterPolicy{MaxLen: 10, OnFull: onFull}
		}), dropped)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	errs := open(core.OnFullStop, nil).Store(t.Context(), record(12))
	if len(errs) != 12 || errs[9] != nil || !errors.Is(errs[10], core.ErrDeadLettersFull) {
		t.Fatalf("errors: %v", errs)
	}
	total := 0
	if errs := open(core.OnFullDropOldest, func(n int, ids []string) { total += n }).Store(t.Context(), record(25)); errs != nil {
		t.Fatal(errs)
	}
	if total != 25 || len(w.list(w.keys.dead)) != 10 {
		t.Fatalf("%d dropped, %d kept", total, len(w.list(w.keys.dead)))
	}
	w.raw.Del(t.Context(), w.keys.dead)
	w.raw.Set(t.Context(), w.keys.dead, "text", 0)
	if errs := open(core.OnFullStop, nil).Store(t.Context(), record(2)); len(errs) != 2 || !contains(errs[1].Error(), "WRONGTYPE") {
		t.Fatalf("errors: %v", errs)
	}
}

func TestPublishKeepsTheOrderAndConfirmsEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.driver(Options{})
	port, err := d.OpenPublisher(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	msgs := make([]core.Message, 1200)
	for i := range msgs {
		msgs[i] = core.Message{Body: []byte(job(fmt.Sprint(i)))}
		if i%3 == 0 {
			msgs[i].Delay = time.Hour + time.Duration(i)*time.Second
		}
	}
	if errs := port.Publish(t.Context(), msgs); errs != nil {
		t.Fatal(errs)
	}
	var now, later []string
	for i, m := range msgs {
		if i%3 == 0 {
			later = append(later, string(m.Body))
		} else {
			now = append(now, string(m.Body))
		}
	}
	if !slices.Equal(w.list(w.keys.ready), now) {
		t.Fatal("the order changed")
	}
	if got := w.raw.ZRange(t.Context(), w.keys.delay, 0, -1).Val(); !slices.Equal(got, later) {
		t.Fatal("the delayed ones are others")
	}
	// Twins that are due at different times stay two.
	twin := core.Message{Body: []byte(job("twin")), Delay: 2 * time.Hour}
	if errs := port.Publish(t.Context(), []core.Message{twin, twin, {Body: []byte("x")}}); errs != nil {
		t.Fatal(errs)
	}
	if n := w.delayed(); n != 402 {
		t.Fatalf("%d delayed", n)
	}

	w.raw.Del(t.Context(), w.keys.ready)
	w.raw.Set(t.Context(), w.keys.ready, "text", 0)
	errs := port.Publish(t.Context(), []core.Message{{Body: []byte("a")}, {Body: []byte("b"), Delay: time.Hour}})
	if len(errs) != 2 || errs[0] == nil || errs[1] != nil {
		t.Fatalf("errors: %v", errs)
	}
	port.Close(t.Context())
	if errs := port.Publish(t.Context(), msgs[:1]); len(errs) != 1 || !errors.Is(errs[0], core.ErrClosed) {
		t.Fatalf("after Close: %v", errs)
	}
}

func TestInspectCountsWithoutATouch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.driver(Options{})
	stats, err := d.Inspect(t.Context(), binding())
	if err != nil || *stats.Ready != 0 || *stats.Delayed != 0 || *stats.InFlight != 0 || *stats.Dead != 0 || stats.OldestSeconds != nil || stats.Lag != nil {
		t.Fatalf("%+v, %v", stats, err)
	}
	w.push(jobs(5)...)
	s, _ := w.open(quick)
	w.receive(s, 2)
	w.raw.ZAdd(t.Context(), w.keys.delay, z(1e14, "x"))
	w.raw.LPush(t.Context(), w.keys.dead, "a", "b")
	stats, err = d.Inspect(t.Context(), binding())
	if err != nil || *stats.Ready != 3 || *stats.Delayed != 1 || *stats.InFlight != 2 || *stats.Dead != 2 {
		t.Fatalf("%+v, %v", stats, err)
	}
	if age := time.Duration(*stats.OldestSeconds) * time.Second; age < time.Since(time.Unix(1720764000, 0))-time.Minute {
		t.Fatalf("oldest %s", age)
	}
	w.raw.RPush(t.Context(), w.keys.ready, "no job")
	if stats, err = d.Inspect(t.Context(), binding()); err != nil || stats.OldestSeconds != nil {
		t.Fatalf("%+v, %v", stats, err)
	}
	w.server.Kill()
	if _, err := d.Inspect(t.Context(), binding()); err == nil {
		t.Fatal("no error from a dead server")
	}
}

// Secrets stay out of what is said about a server that refuses.
func TestErrorsKeepThePasswordOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.url = "redis://user:canary@" + w.server.Addr
	w.server.Kill()
	d := w.driver(Options{})
	var log strings.Builder
	var mu sync.Mutex
	b := binding(func(b *core.Binding) { b.Logger = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, nil)) })
	_, err := d.OpenSource(t.Context(), b, &ear{})
	_, inspectErr := d.Inspect(t.Context(), b)
	for _, text := range []string{fmt.Sprint(err), fmt.Sprint(inspectErr), log.String()} {
		if strings.Contains(text, "canary") {
			t.Errorf("it says %s", text)
		}
	}
	if !contains(fmt.Sprint(err), w.server.Addr) {
		t.Errorf("it does not say where: %v", err)
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Writer.Write(p)
}

// deadOf buries jobs as they are, the first the oldest.
func (w *world) deadOf(list string, jobs ...string) {
	w.Helper()
	for _, j := range jobs {
		w.pushTo(list, fmt.Sprintf(`{"job":%s,"at":1}`, j))
	}
}

func TestAMovePutsEachJobOnTheListOfItsPriority(t *testing.T) {
	t.Parallel()
	w := newLeveled(t)
	d := w.driver(Options{})
	for i := range 20 { // pages of 16 and 4
		priority := []string{`"high"`, `null`, `"low"`, `"critical"`, `"high"`}[i%5]
		w.deadOf(w.keys.dead, levelJob(fmt.Sprintf("j%02d", i), priority))
	}
	store, err := d.OpenDeadLetters(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	port, err := d.OpenPublisher(t.Context(), binding(byLevel))
	if err != nil {
		t.Fatal(err)
	}
	target := &movesOnly{t, port}
	report, err := deadletter.Replay(t.Context(), &unwrapping{store, target}, target, deadletter.Filter{}, deadletter.ReplayOptions{Batch: 7})
	if err != nil || report.Replayed != 20 || len(w.list(w.keys.dead)) > 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	w.wantLists(map[string][]string{
		"critical": {"j03", "j08", "j13", "j18"},
		"high":     {"j00", "j04", "j05", "j09", "j10", "j14", "j15", "j19"},
		"":         {"j01", "j06", "j11", "j16"},
		"low":      {"j02", "j07", "j12", "j17"},
	})
}

func TestAMoveLeavesBothListsOfDeadLettersInTheFormThatIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, format := range []core.Format{core.FormatJob, core.FormatDelayQueue} {
		o := quick
		o.KeyStyle = KeyStyleSwoolefy
		w := newStyled(t, o)
		w.deadOf(w.keys.dead, job("a"), job("b"))
		w.pushTo(w.keys.deadRaw, "raw")
		w.deadOf(w.keys.deadRaw, job("c"))
		store, err := w.driver(o).OpenDeadLetters(t.Context(), binding())
		if err != nil {
			t.Fatal(err)
		}
		port, err := w.driver(o).OpenPublisher(t.Context(), binding())
		if err != nil {
			t.Fatal(err)
		}
		target := &movesOnly{t, port}
		report, err := deadletter.Replay(t.Context(), &unwrapping{store, target}, target, deadletter.Filter{}, deadletter.ReplayOptions{Format: format})
		if err != nil || report.Replayed != 3 || report.Unreadable != 1 {
			t.Fatalf("%s: %+v, %v", format, report, err)
		}
		ready := w.list(w.keys.ready)
		if len(ready) != 3 {
			t.Fatalf("%s: ready %q", format, ready)
		}
		for i, body := range ready {
			id, php := fmt.Sprintf(`"jobId":"%c"`, 'a'+i), strings.Contains(body, `"__id":"`) && strings.Contains(body, `"__retry_num":0`)
			if format == core.FormatDelayQueue {
				id = fmt.Sprintf(`"id":"%c"`, 'a'+i)
			}
			if !strings.Contains(body, id) || !php {
				t.Errorf("%s: job %d is %s", format, i, body)
			}
		}
		if n, err := deadletter.Purge(t.Context(), store, deadletter.Filter{}, deadletter.PurgeOptions{}); n != 1 || err != nil || len(w.list(w.keys.deadRaw)) > 0 {
			t.Errorf("%s: purged %d, %v", format, n, err)
		}
	}
}

// movesOnly is a target to which jobs must be moved.
type movesOnly struct {
	t *testing.T
	core.PublishPort
}

func (m *movesOnly) Publish(context.Context, []core.Message) []error {
	m.t.Error("the jobs were published, not moved")
	return nil
}

// unwrapping is a store that moves to what its target hides.
type unwrapping struct {
	deadletter.Store
	target *movesOnly
}

func (u *unwrapping) Visit(ctx context.Context, visit func(deadletter.Page) error) error {
	return u.Store.Visit(ctx, func(p deadletter.Page) error { return visit(&unwrappingPage{p, u.target}) })
}

type unwrappingPage struct {
	deadletter.Page
	target *movesOnly
}

func (p *unwrappingPage) Move(ctx context.Context, _ deadletter.Target, entries []*deadletter.Entry, msgs []core.Message) (int, error) {
	return p.Page.(deadletter.Mover).Move(ctx, p.target.PublishPort, entries, msgs)
}
