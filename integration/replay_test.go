package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goconsumer/consumer/internal/testproxy"
)

func TestB47_ReplayIsCutShortTwiceAndLosesNothing(t *testing.T) {
	t.Parallel()
	const good, bad, unreadable = 490, 500, 10
	l := newPlay(t, "1")
	proxy := testproxy.Start(t, l.server.Addr)
	l.configure(strings.NewReplacer("REDIS", "redis://"+proxy.Addr()+"/0", "REPLICAS", "1").Replace(playConfig))

	var published []string
	for i := range good + bad + unreadable {
		record := fmt.Sprintf("cannot be decoded %d", i)
		if i%100 != 50 {
			do := `["SUCCESS"]`
			if len(published) >= good {
				do = `["FAIL"]`
			}
			id := fmt.Sprintf("dead-%04d", i)
			published = append(published, id)
			job := fmt.Sprintf(`{"v":1,"jobId":%q,"jobType":"play.job","payload":{"do":%s},"meta":{"crashes":2,"deferred":3,"lastError":"x"},"attempt":3,"maxAttempts":3,"createdAt":1720764000}`, id, do)
			record = `{"job":` + job + `,"error":"it failed","at":1720764000,"reason":"exhausted","queue":"play","process":"play","transport":"redis"}`
		}
		if err := l.client.LPush(t.Context(), "job:dead:{play}", record).Err(); err != nil {
			t.Fatal(err)
		}
	}
	nothingMissing := func() {
		t.Helper()
		conserve(t, published, holds(t, l.client, "play"), l.readLedger)
	}
	replayed := func() int { return len(holds(t, l.client, "play").ready) }
	// The rate leaves time to interrupt it.
	replay := func() *program { return l.start(binaries.stock, nil, "dlq", "replay", "--process=play", "--rate=1000") }

	p := replay()
	eventually(t, 10*time.Second, "about 300 are replayed", func() bool { return replayed() >= 250 || p.gone() })
	p.kill()
	nothingMissing()
	first := replayed()
	p = replay()
	eventually(t, 10*time.Second, "about 600 are replayed", func() bool { return replayed() >= 550 || p.gone() })
	proxy.Cut()
	p.wait(30 * time.Second)
	nothingMissing()
	t.Logf("killed at %d, cut at about %d", first, replayed())

	p = replay()
	if code := p.wait(30 * time.Second); code != 1 {
		t.Errorf("a replay that skipped unreadable entries has exit code %d, want 1:\n%s", code, p.stderr.tail())
	}
	if !strings.Contains(p.stderr.String(), "10") {
		t.Errorf("the replay does not say that 10 entries were skipped: %s", p.stderr.tail())
	}
	nothingMissing()
	h := holds(t, l.client, "play")
	if len(h.dead) != unreadable {
		t.Errorf("%d dead letters are left, want the %d unreadable ones", len(h.dead), unreadable)
	}
	copies := len(h.ready) - len(published)
	if copies != 0 { // each moves in one step
		t.Errorf("%d extra copies after two interruptions", copies)
	}
	body := l.client.LIndex(t.Context(), "dq:ready:{play}", -1).Val()
	for _, part := range []string{`"attempt":1`, `"replayed":1`, `"createdAt":1720764000`} {
		if !strings.Contains(body, part) {
			t.Errorf("a replayed job lacks %s: %s", part, body)
		}
	}
	for _, part := range []string{"crashes", "deferred", "lastError"} {
		if strings.Contains(body, part) {
			t.Errorf("a replayed job still has %s: %s", part, body)
		}
	}

	worker := l.start(binaries.worker, nil, "run", "--process=play")
	l.awaitEmpty("play", time.Minute)
	worker.stop(10 * time.Second)
	dead := holds(t, l.client, "play").dead
	slices.Sort(dead)
	if again := len(slices.Compact(dead)) - unreadable; again != bad {
		t.Errorf("%d jobs are dead again, want %d", again, bad)
	}
	if n := len(results(l.readLedger(), "SUCCESS")); n != good {
		t.Errorf("%d jobs succeeded, want %d", n, good)
	}

	code, stdout, stderr := l.run(binaries.stock, "dlq", "replay", "--process=play", "--id=nobody")
	if code != 1 || stdout != "" || !strings.Contains(stderr, "nobody") {
		t.Errorf("an unknown id: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestB47_ManyDeadLettersNeedLittleMemory(t *testing.T) {
	t.Parallel()
	n := sized(20_000, 1_000_000)
	l := newPlay(t, "1")
	fill := strings.Repeat("x", 100)
	bury(l, n, func(i int) string {
		return deadRecord(envelope(fmt.Sprintf("dead-%07d", i), fmt.Sprintf("play.t%d", i%2), `{"fill":"`+fill+`"}`))
	})
	limit := 64 << 10
	for _, verb := range [][]string{
		{"ls"}, {"ls", "-o", "json"}, {"export"}, {"purge", "--dry-run"},
		{"replay", "--type=play.t1"}, {"purge", "--type=play.t0", "--limit=" + fmt.Sprint(n/4)}, {"purge", "--yes"},
	} {
		start := time.Now()
		p := l.startInto(io.Discard, binaries.stock, append([]string{"dlq", "--process=play"}, verb...)...)
		peak := 0
		eventually(t, 10*time.Minute, "the verb has ended", func() bool {
			peak = max(peak, peakKiB(p.cmd.Process.Pid))
			return p.gone()
		})
		if code := p.wait(time.Second); code != 0 {
			t.Errorf("dlq %v: exit code %d: %s", verb, code, p.stderr.tail())
		}
		t.Logf("dlq %v of %d dead letters took %s, peak memory %d MiB", verb, n, time.Since(start).Round(10*time.Millisecond), peak>>10)
		if peak > limit {
			t.Errorf("dlq %v: peak memory %d MiB, at most %d", verb, peak>>10, limit>>10)
		}
	}
	ready, dead := l.client.LLen(t.Context(), "dq:ready:{play}").Val(), l.client.LLen(t.Context(), "job:dead:{play}").Val()
	if ready != int64(n/2) || dead != 0 {
		t.Errorf("%d are ready and %d dead, want %d and none", ready, dead, n/2)
	}
}

// peakKiB is a process's VmHWM, 0 when it has ended.
func peakKiB(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

func TestDeadLettersAreListedFilteredAndShown(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	now := time.Now().Unix()
	for i, c := range []struct {
		jobType, reason, err string
		age                  int64
	}{
		{"play.a", "failed", "no such order", 7200},
		{"play.b", "exhausted", "timed out after 2s", 60},
		{"play.b", "failed", "no such order", 60},
	} {
		job := envelope(fmt.Sprintf("dead-%d", i), c.jobType, `{}`)
		record := fmt.Sprintf(`{"job":%s,"error":%q,"at":%d,"reason":%q,"queue":"play","process":"play","transport":"redis"}`, job, c.err, now-c.age, c.reason)
		if err := l.client.LPush(t.Context(), "job:dead:{play}", record).Err(); err != nil {
			t.Fatal(err)
		}
	}
	ls := func(filters ...string) []string {
		t.Helper()
		code, stdout, stderr := l.run(binaries.stock, append([]string{"dlq", "ls", "--process=play", "-o", "json"}, filters...)...)
		var listed []struct{ ID string }
		if err := json.Unmarshal([]byte(stdout), &listed); code != 0 || err != nil {
			t.Fatalf("dlq ls %v: exit code %d, %v, %s", filters, code, err, stderr)
		}
		ids := []string{}
		for _, entry := range listed {
			ids = append(ids, entry.ID)
		}
		return ids
	}
	for _, c := range []struct {
		filters []string
		want    string
	}{
		{nil, "[dead-0 dead-1 dead-2]"},
		{[]string{"--type=play.b"}, "[dead-1 dead-2]"},
		{[]string{"--type=play.*", "--reason=failed"}, "[dead-0 dead-2]"},
		{[]string{"--error=timed out"}, "[dead-1]"},
		{[]string{"--since=1h"}, "[dead-1 dead-2]"},
		{[]string{"--until=1h"}, "[dead-0]"},
		{[]string{"--since=" + time.Unix(now-3600, 0).UTC().Format(time.RFC3339)}, "[dead-1 dead-2]"},
		{[]string{"--id=dead-2"}, "[dead-2]"},
		{[]string{"--limit=1"}, "[dead-0]"},
		{[]string{"--reason=crashed"}, "[]"},
	} {
		if got := fmt.Sprint(ls(c.filters...)); got != c.want {
			t.Errorf("dlq ls %v lists %s, want %s", c.filters, got, c.want)
		}
	}

	code, stdout, _ := l.run(binaries.stock, "dlq", "show", "dead-1", "--process=play", "-o", "json")
	var shown struct{ ID, Reason, Error string }
	if err := json.Unmarshal([]byte(stdout), &shown); code != 0 || err != nil || shown.ID != "dead-1" || shown.Reason != "exhausted" {
		t.Errorf("dlq show: exit code %d, %v, %s", code, err, stdout)
	}
	if code, _, stderr := l.run(binaries.stock, "dlq", "show", "nobody", "--process=play"); code != 1 || !strings.Contains(stderr, "nobody") {
		t.Errorf("dlq show of an unknown id: exit code %d, %s", code, stderr)
	}
	code, stdout, _ = l.run(binaries.stock, "dlq", "replay", "--process=play", "--dry-run", "--reason=failed")
	if h := holds(t, l.client, "play"); code != 0 || len(h.ready) != 0 || len(h.dead) != 3 || !strings.Contains(stdout, "2") {
		t.Errorf("a dry run: exit code %d, %d ready, %d dead, %s", code, len(h.ready), len(h.dead), stdout)
	}
	code, stdout, _ = l.run(binaries.stock, "dlq", "replay", "--process=play", "--stdout", "--id=dead-0")
	if h := holds(t, l.client, "play"); code != 0 || len(h.dead) != 3 || !strings.Contains(stdout, `"dead-0"`) {
		t.Errorf("replay --stdout: exit code %d, %d dead, %s", code, len(h.dead), stdout)
	}
	if code, _, stderr := l.run(binaries.stock, "dlq", "replay", "--process=play", "--id=dead-0"); code != 0 {
		t.Errorf("replay of one id: exit code %d, %s", code, stderr)
	}
	h := holds(t, l.client, "play")
	sameIDs(t, "ready", h.ready, []string{"dead-0"})
	sameIDs(t, "dead", h.dead, []string{"dead-1", "dead-2"})
}

func TestB47_JobsThatFailAgainDuringAReplayAreNotReplayedTwice(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	n := sized(2_000, 10_000)
	for batch := range slices.Chunk(numbers(0, n), 1000) {
		pipe := l.client.Pipeline()
		for _, i := range batch {
			job := envelope(fmt.Sprintf("dead-%06d", i), "play.job", `{"do":["FAIL"]}`)
			pipe.LPush(t.Context(), "job:dead:{play}", `{"job":`+job+`,"error":"it failed","at":1720764000,"reason":"failed"}`)
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	worker := l.start(binaries.worker, nil, "run", "--process=play")
	code, stdout, stderr := l.run(binaries.stock, "dlq", "replay", "--process=play", "--rate=2000")
	if want := fmt.Sprintf("%d jobs replayed to play\n", n); code != 0 || stdout != want {
		t.Errorf("exit code %d, stdout %q, want %q; stderr %q", code, stdout, want, stderr)
	}
	eventually(t, 30*time.Second, "every job is dead again", func() bool {
		return l.client.LLen(t.Context(), "job:dead:{play}").Val() == int64(n)
	})
	worker.stop(10 * time.Second)
	for id, runs := range results(l.readLedger(), "FAIL") {
		if runs != 1 {
			t.Fatalf("job %s ran %d times", id, runs)
		}
	}
}

func TestUnreadableDeadLettersDoNotUseUpALimit(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	l.client.LPush(t.Context(), "job:dead:{play}", "unreadable", "{}",
		`{"job":`+envelope("first", "play.job", `{}`)+`,"error":"x","at":1}`, `{"job":`+envelope("second", "play.job", `{}`)+`,"error":"x","at":1}`)
	code, stdout, _ := l.run(binaries.stock, "dlq", "replay", "--process=play", "--limit=1", "--stdout")
	if code != 1 || strings.Count(stdout, "\n") != 1 || !strings.Contains(stdout, "first") {
		t.Errorf("replay --stdout: exit code %d, %q", code, stdout)
	}
	if code, _, stderr := l.run(binaries.stock, "dlq", "replay", "--process=play", "--limit=1"); code != 1 || !strings.Contains(stderr, "2 entries") {
		t.Errorf("replay: exit code %d, %s", code, stderr)
	}
	sameIDs(t, "ready", holds(t, l.client, "play").ready, []string{"first"})
	if _, stdout, _ := l.run(binaries.stock, "dlq", "ls", "--process=play"); !strings.Contains(stdout, "not a dead-letter record") {
		t.Errorf("dlq ls does not say what is wrong:\n%s", stdout)
	}
}
