package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestPublishedJobsAreStoredByteForByte(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	payload := `{"big":9007199254740993,"object":{},"list":[],"one":1.0,"html":"<&>"}`
	code, stdout, stderr := l.run(binaries.stock, "publish", "--process=play", "--type=play.job", "--payload="+payload,
		"--meta=tenantId=42", "--meta=timeoutMs=1500")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	id := strings.TrimSpace(stdout)
	if !regexp.MustCompile(`^job_\d{14}_[0-9a-f]{12}$`).MatchString(id) {
		t.Errorf("stdout is not one id: %q", stdout)
	}
	body := l.client.LIndex(t.Context(), "dq:ready:{play}", 0).Val()
	want := regexp.MustCompile(`^\{"v":1,"jobId":"` + id + `","jobType":"play\.job","payload":` + regexp.QuoteMeta(payload) +
		`,"meta":\{"tenantId":"42","timeoutMs":1500\},"attempt":1,"maxAttempts":3,"createdAt":\d{10}\}$`)
	if !want.MatchString(body) {
		t.Errorf("the stored envelope is %s, want %s", body, want)
	}
}

func TestPublishCountGivesEachJobAnIDAndDelayIsKept(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	before := l.now()
	code, stdout, stderr := l.run(binaries.stock, "publish", "--process=play", "--type=play.job", "--count=1000", "--delay=1m")
	ids := strings.Fields(stdout)
	if code != 0 || len(ids) != 1000 {
		t.Fatalf("exit code %d, %d ids: %s", code, len(ids), stderr)
	}
	sameIDs(t, "delayed", holds(t, l.client, "play").delayed, ids)
	first := l.client.ZRangeWithScores(t.Context(), "dq:delay:{play}", 0, 0).Val()[0]
	if due := time.UnixMilli(int64(first.Score)); due.Before(before.Add(time.Minute)) || due.After(before.Add(70*time.Second)) {
		t.Errorf("the first job is due %s after the command's start, want a minute", due.Sub(before))
	}
}

// now is the server's clock.
func (l *lab) now() time.Time {
	l.t.Helper()
	now, err := l.client.Time(l.t.Context()).Result()
	if err != nil {
		l.t.Fatal(err)
	}
	return now
}

func TestPublishChecksAWholeFileBeforeItSendsAnything(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	record := func(id string) string {
		return `{"job":{"v":1,"jobId":"` + id + `","jobType":"play.job","payload":{"n":1.0},"meta":{"crashes":1},"attempt":5,"maxAttempts":5,"createdAt":1,"extra":1},"error":"x","at":1,"reason":"exhausted"}`
	}
	good := []string{
		envelope("from-file", "play.job", `{"a":[1.0]}`),
		``,
		`{"jobType":"play.job","payload":{}}`,
		record("from-record"),
	}
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	for name, bad := range map[string]string{
		"no JSON":          `{"jobType":`,
		"no type":          `{"jobId":"x","payload":{}}`,
		"scalar payload":   envelope("x", "play.job", "1"),
		"malformed record": `{"job":null,"raw":"eA==","error":"x","at":1,"reason":"malformed"}`,
	} {
		write(append(good, bad)...)
		code, stdout, stderr := l.run(binaries.stock, "publish", "--process=play", "--file="+file)
		if code == 0 || stdout != "" || !strings.Contains(stderr, "line 5") {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", name, code, stdout, stderr)
		}
		if h := holds(t, l.client, "play"); h.waiting() != 0 {
			t.Fatalf("%s: %d jobs were sent", name, h.waiting())
		}
	}

	good[0] = "\ufeff" + good[0] // as some editors write a file
	write(good...)
	code, stdout, stderr := l.run(binaries.stock, "publish", "--process=play", "--file="+file)
	ids := strings.Fields(stdout)
	if code != 0 || len(ids) != 3 || ids[0] != "from-file" || !strings.HasPrefix(ids[1], "job_") || ids[2] != "from-record" {
		t.Fatalf("exit code %d, ids %v: %s", code, ids, stderr)
	}
	bodies := l.client.LRange(t.Context(), "dq:ready:{play}", 0, -1).Val()
	if "\ufeff"+bodies[2] != good[0] {
		t.Errorf("the envelope became %s", bodies[2])
	}
	if !strings.Contains(bodies[0], `"attempt":1`) || !strings.Contains(bodies[0], `"extra":1`) || strings.Contains(bodies[0], "crashes") {
		t.Errorf("the dead letter's job became %s", bodies[0])
	}
}

func TestPublishReadsStdin(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	p := l.start(binaries.stock, nil, "publish", "--process=play", "--file=-")
	for i := range 3 {
		fmt.Fprintln(p.stdin, envelope(fmt.Sprintf("line-%d", i), "play.job", "{}"))
	}
	p.stdin.Close()
	if code := p.wait(10 * time.Second); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr.tail())
	}
	sameIDs(t, "ready", holds(t, l.client, "play").ready, []string{"line-0", "line-1", "line-2"})
}

func TestPublishToABrokerThatIsDownSaysSo(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	l.server.Stop()
	code, stdout, stderr := l.run(binaries.stock, "publish", "--process=play", "--type=play.job")
	if code != 69 || stdout != "" || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestStatsCountEveryPlace(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	push(t, l.client, "play", "play.job", 3, func(int) string { return "{}" })
	l.client.LPush(t.Context(), "job:dead:{play}", `{"job":`+envelope("d", "play.job", "{}")+`,"error":"x","at":1}`)
	if code, _, stderr := l.run(binaries.stock, "publish", "--process=play", "--type=play.job", "--delay=1h", "--count=2"); code != 0 {
		t.Fatal(stderr)
	}
	code, stdout, stderr := l.run(binaries.stock, "stats", "-o", "json")
	var stats []struct {
		Process, Transport, Queue string
		Ready, Delayed, Dead, Lag *int64
		InFlight                  *int64 `json:"in_flight"`
	}
	if err := json.Unmarshal([]byte(stdout), &stats); code != 0 || err != nil || len(stats) != 1 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	s := stats[0]
	if s.Process != "play" || *s.Ready != 3 || *s.Delayed != 2 || *s.Dead != 1 || *s.InFlight != 0 || s.Lag != nil {
		t.Errorf("stats are %s", stdout)
	}
}

func TestDeadLettersAreCountedWhereverTheyAre(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	address := strings.TrimSuffix(l.server.URL(), "/0")
	l.configure(strings.NewReplacer("REPLICAS", "1", "REDIS\"}", address+"/0\"}\n  other: {url: \""+address+"/1\"}",
		"queue: play", "queue: play\n    dead_letter: {driver: redis_list, transport: other, max_len: 2, on_full: drop_oldest}").Replace(playConfig) +
		"admin: {listen: \"127.0.0.1:0\"}\n")
	push(t, l.client, "play", "play.job", 3, func(int) string { return `{"do":["FAIL"]}` })
	p := l.start(binaries.worker, nil, "run", "--all")
	addr := p.adminAddr()
	eventually(t, 10*time.Second, "three jobs are dead", func() bool { return strings.Count(p.stderr.String(), `"job.dead"`) == 3 })
	_, body := get(addr, "/metrics")
	for _, want := range []string{`consumer_queue_dead{process="play"} 2`, `consumer_dead_letter_overflow_total{process="play"} 1`} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics lack %s:\n%s", want, body)
		}
	}
	code, stdout, stderr := l.run(binaries.stock, "stats", "-o", "json")
	if code != 0 || !strings.Contains(stdout, `"dead": 2`) {
		t.Errorf("stats: exit code %d, %s%s", code, stdout, stderr)
	}
	p.stop(10 * time.Second)
}
