package integration

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const swoolefyConfig = `
transports:
  redis: {url: "REDIS"}
processes:
  orders:
    transport: redis
    queue: orders
    priority: levels
    concurrency: 1
    default_job_type: play.legacy
    retry: {type: fixed, max_attempts: 3, base_delay: 100ms, jitter: 0}
    redis: {key_style: swoolefy, lease: 2s, delay_poll: 100ms, sweep: 500ms}
`

// needPHP skips the test without PHP and its Redis extension, or fails it where
// CONSUMER_REQUIRE_BROKERS names php.
func needPHP(t *testing.T) {
	t.Helper()
	if exec.Command("php", "-r", `exit(extension_loaded("redis") ? 0 : 1);`).Run() == nil {
		return
	}
	const missing = "php with its redis extension is not in PATH: install Debian's php-cli and php-redis, or run make test, which provides them"
	if strings.Contains(os.Getenv("CONSUMER_REQUIRE_BROKERS"), "php") {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// php runs a verb of the PHP program on the queue orders and returns its lines.
func (l *lab) php(input []string, verb string, argument int) []string {
	l.t.Helper()
	host, port, err := net.SplitHostPort(l.server.Addr)
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.Command("php", "php/queue.php", host, port, "orders", verb, strconv.Itoa(argument))
	cmd.Stdin = strings.NewReader(strings.Join(input, "\n"))
	var complaint strings.Builder
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		l.t.Fatalf("php %s: %v: %s%s", verb, err, complaint.String(), text)
	}
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// phpJob is a job as PHP's own code read it.
type phpJob struct {
	JobID       string          `json:"jobId"`
	JobType     string          `json:"jobType"`
	Payload     json.RawMessage `json:"payload"`
	Attempt     int             `json:"attempt"`
	MaxAttempts int             `json:"maxAttempts"`
	CreatedAt   int64           `json:"createdAt"`
}

// phpItem is a line of the PHP program.
type phpItem struct {
	List  string                     `json:"list"`
	Item  map[string]json.RawMessage `json:"item"`
	Job   phpJob                     `json:"job"`
	Error string                     `json:"error"`
	At    int64                      `json:"at"`
	Retry bool                       `json:"retry"`
}

func phpItems(t *testing.T, lines []string) []phpItem {
	t.Helper()
	items := make([]phpItem, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &items[i]); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return items
}

func TestJobsOfAPHPProducerAreConsumedRetriedAndBuriedForPHP(t *testing.T) {
	t.Parallel()
	needPHP(t)
	l := newLab(t, swoolefyConfig)
	l.php([]string{
		envelope("a", "play.job", `{"do":["SUCCESS"],"text":"größer \/ 中","empty":[]}`),
		envelope("b", "play.job", `{"do":["RETRY","RETRY","SUCCESS"]}`),
		envelope("c", "play.job", `{"do":["FAIL"],"text":"größer"}`),
		envelope("d", "play.job", `{"do":["RETRY"]}`),
		`{"orderId":7}`, // no envelope
	}, "push", 0)
	l.php([]string{envelope("first", "play.job", `{}`)}, "push-priority", 0)
	l.php([]string{envelope("later", "play.job", `{}`)}, "retry", 1)
	l.php(nil, "push-broken", 0)

	p := l.start(binaries.worker, nil, "run", "--process=orders")
	eventually(t, 30*time.Second, "every job has ended", func() bool {
		return len(results(l.readLedger(), "SUCCESS", "FAIL")) >= 6 &&
			l.client.LLen(t.Context(), "job:dead:orders").Val() == 2 && l.client.LLen(t.Context(), "job:dead:orders:raw").Val() == 0
	})
	p.stop(10 * time.Second)

	attempts := map[string]int{}
	for i, r := range l.readLedger() {
		attempts[r.ID]++
		switch {
		case i == 0 && r.ID != "first":
			t.Errorf("%s ran before the job of the priority list", r.ID)
		case r.ID == "a" && string(r.Payload) != `{"do":["SUCCESS"],"text":"gr\u00f6\u00dfer \/ \u4e2d","empty":[]}`:
			t.Errorf("the payload came as %s", r.Payload)
		}
	}
	if attempts["b"] != 3 || attempts["d"] != 3 || attempts["later"] != 1 {
		t.Errorf("attempts: %v", attempts)
	}

	// What a replay would send, in PHP's own hands.
	code, lines, complaint := l.run(binaries.worker, "dlq", "replay", "--process=orders", "--stdout")
	if code != 0 {
		t.Fatalf("replay --stdout ended with %d: %s", code, complaint)
	}
	l.php(strings.Split(strings.TrimSpace(lines), "\n"), "push", 0)
	var ids []string
	for _, item := range phpItems(t, l.php(nil, "consume", 2)) {
		ids = append(ids, item.Job.JobID)
		if item.Job.Attempt != 1 || item.List != "orders" {
			t.Errorf("PHP reads the replayed job as %+v", item)
		}
	}
	if !slices.Equal(ids, []string{"c", "d"}) {
		t.Errorf("PHP got %v of replay --stdout, want c and d", ids)
	}

	dead := phpItems(t, l.php(nil, "exhume", 0))
	if len(dead) != 2 || dead[0].Job.JobID != "c" || dead[0].Error != "the script says FAIL" || dead[0].Job.MaxAttempts != 5 ||
		string(dead[0].Job.Payload) != `{"do":["FAIL"],"text":"größer"}` || dead[1].Job.JobID != "d" || dead[1].At == 0 {
		t.Errorf("PHP reads the dead letters as %+v", dead)
	}
	l.wantKeys()
}

// wantKeys fails when jobs are left anywhere.
func (l *lab) wantKeys() {
	l.t.Helper()
	for _, pattern := range []string{"orders*", "job:dead:*", "dq:processing:*"} {
		if keys := l.client.Keys(l.t.Context(), pattern).Val(); len(keys) > 0 {
			l.t.Errorf("left are %v", keys)
		}
	}
}

func TestJobsOfTheConsumerAreReadRetriedAndBuriedByPHP(t *testing.T) {
	t.Parallel()
	needPHP(t)
	l := newLab(t, swoolefyConfig)
	publish := func(args ...string) string {
		t.Helper()
		code, id, complaint := l.run(binaries.worker, append([]string{"publish", "--process=orders", "--type=play.job"}, args...)...)
		if code != 0 {
			t.Fatalf("publish %v ended with %d: %s", args, code, complaint)
		}
		return strings.TrimSpace(id)
	}
	plain := publish(`--payload={"n":1,"o":{}}`)
	later := publish("--delay=1s")
	high := publish("--priority=high")
	start := time.Now()
	got := phpItems(t, l.php(nil, "consume", 3))
	if len(got) != 3 || got[0].Job.JobID != high || got[0].List != "orders:priority_queue" || got[1].Job.JobID != plain || got[2].Job.JobID != later {
		t.Fatalf("PHP got %+v, want %s, %s, %s", got, high, plain, later)
	}
	if time.Since(start) > 20*time.Second {
		t.Errorf("PHP had its jobs after %s", time.Since(start))
	}
	for _, item := range got {
		if !item.Retry || item.Job.Attempt != 1 || item.Job.MaxAttempts != 3 {
			t.Errorf("PHP cannot go on with %+v", item)
		}
	}

	// A retry that waits when the consumer stops is PHP's to promote.
	l.configure(strings.NewReplacer("REDIS", l.server.URL(), "base_delay: 100ms", "base_delay: 3s").Replace(swoolefyConfig))
	retried := publish(`--payload={"do":["RETRY"]}`)
	p := l.start(binaries.worker, nil, "run", "--process=orders")
	eventually(t, 20*time.Second, "the retry is stored", func() bool {
		return l.client.ZCard(t.Context(), "orders:retry_queue_sort").Val() == 1
	})
	p.stop(10 * time.Second)
	due := l.client.ZRangeWithScores(t.Context(), "orders:retry_queue_sort", 0, -1).Val()[0].Score
	if wait := due - float64(time.Now().Unix()); due != float64(int64(due)) || wait < -1 || wait > 5 {
		t.Errorf("the retry is due at %v, in %v s", due, wait)
	}
	got = phpItems(t, l.php(nil, "consume", 1))
	if len(got) != 1 || got[0].Job.JobID != retried || got[0].Job.Attempt != 2 || !got[0].Retry {
		t.Fatalf("PHP got %+v, want %s on its 2nd attempt", got, retried)
	}
	if id, n := string(got[0].Item["__id"]), string(got[0].Item["__retry_num"]); len(id) != 34 || n != "0" {
		t.Errorf("the retry has __id %s and __retry_num %s", id, n)
	}

	// PHP's dead letters are the consumer's to read and to replay.
	l.php([]string{envelope("x", "play.job", `{"do":["SUCCESS"]}`), envelope("y", "play.job", `{}`)}, "bury", 0)
	if _, table, _ := l.run(binaries.worker, "dlq", "ls", "--process=orders", "-o", "json"); !strings.Contains(table, "größer") {
		t.Errorf("dlq ls shows %s", table)
	}
	if code, _, complaint := l.run(binaries.worker, "dlq", "replay", "--process=orders"); code != 0 {
		t.Fatalf("replay ended with %d: %s", code, complaint)
	}
	got = phpItems(t, l.php(nil, "consume", 2))
	if fmt.Sprint(got[0].Job.JobID, got[1].Job.JobID) != "xy" || !got[0].Retry {
		t.Errorf("PHP got %+v of the replay, want x and y", got)
	}
	l.wantKeys()
}

func TestDelayQueueMessagesStayInTheirForm(t *testing.T) {
	t.Parallel()
	l := newLab(t, strings.NewReplacer("    default_job_type: play.legacy\n", "    format: delayqueue\n", "swoolefy", "plain").Replace(swoolefyConfig))
	message := func(id, payload string) string {
		return `{"id":"` + id + `","topic":"play.job","payload":` + payload + `,"attempt":0,"max_retry":3,"born_at":1720764000,"trace":"x"}`
	}
	if err := l.client.LPush(t.Context(), "dq:ready:orders", message("a", `{"do":["RETRY","SUCCESS"]}`), message("b", `{"do":["RETRY","FAIL"]}`)).Err(); err != nil {
		t.Fatal(err)
	}
	p := l.start(binaries.worker, nil, "run", "--process=orders")
	eventually(t, 20*time.Second, "both have ended", func() bool { return len(results(l.readLedger(), "SUCCESS", "FAIL")) == 2 })
	p.stop(10 * time.Second)
	dead := l.client.LRange(t.Context(), "job:dead:orders", 0, -1).Val()
	want := `{"job":` + strings.Replace(message("b", `{"do":["RETRY","FAIL"]}`), `"attempt":0`, `"attempt":1`, 1) + `,"error":"the script says FAIL","at":`
	if len(dead) != 1 || !strings.HasPrefix(dead[0], want) {
		t.Fatalf("dead letters are\n%v\nwant\n%s…", dead, want)
	}
	if code, _, complaint := l.run(binaries.worker, "dlq", "replay", "--process=orders"); code != 0 {
		t.Fatalf("replay ended with %d: %s", code, complaint)
	}
	if code, _, complaint := l.run(binaries.worker, "publish", "--process=orders", "--type=play.job"); code != 0 {
		t.Fatalf("publish ended with %d: %s", code, complaint)
	}
	ready := l.client.LRange(t.Context(), "dq:ready:orders", 0, -1).Val()
	if len(ready) != 2 || !strings.HasPrefix(ready[0], `{"id":"job_`) || !strings.Contains(ready[0], `"topic":"play.job","payload":{},"attempt":0,"max_retry":3,"born_at":`) ||
		!strings.HasPrefix(ready[1], `{"id":"b","topic":"play.job","payload":{"do":["RETRY","FAIL"]},"attempt":0,"max_retry":3,"born_at":1720764000`) {
		t.Errorf("replayed and published are\n%s", strings.Join(ready, "\n"))
	}
}
