package integration

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestARetriedJobKeepsItsBytesAndCountsItsAttempts(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	payload := func(do string) string {
		return `{"do":` + do + `,"big":9007199254740993,"object":{},"list":[],"one":1.0,"html":"<&>","é":"\u00e9"}`
	}
	body := func(id, do string) string {
		return `{"v":7,"jobId":"` + id + `","jobType":"play.job","payload":` + payload(do) +
			`,"meta":{"tenantId":"t1","unknown":{"deep":[1.50,{}]}},"attempt":1,"maxAttempts":5,"createdAt":1720764000,"extra":{"b":1e3},"another":[]}`
	}
	twice, dead := `["RETRY","RETRY","SUCCESS"]`, `["RETRY","RETRY","FAIL"]`
	if err := l.client.LPush(t.Context(), "dq:ready:{play}", body("a", twice), body("b", dead)).Err(); err != nil {
		t.Fatal(err)
	}
	p := l.start(binaries.worker, nil, "run", "--process=play")
	eventually(t, 20*time.Second, "both jobs have ended", func() bool {
		return len(results(l.readLedger(), "SUCCESS", "FAIL")) == 2 && holds(t, l.client, "play").waiting() == 0
	})
	p.stop(10 * time.Second)

	attempts := map[string][]int{}
	for _, r := range l.readLedger() {
		attempts[r.ID] = append(attempts[r.ID], r.Attempt)
		if want := payload(map[string]string{"a": twice, "b": dead}[r.ID]); string(r.Payload) != want {
			t.Errorf("job %s attempt %d has payload\n%s, want\n%s", r.ID, r.Attempt, r.Payload, want)
		}
	}
	for id, got := range attempts {
		if fmt.Sprint(got) != "[1 2 3]" {
			t.Errorf("job %s ran as attempts %v, want 1, 2, 3", id, got)
		}
	}
	var record struct{ Job json.RawMessage }
	l.deadLetter("play", 0, &record)
	want := body("b", dead)
	for _, part := range []string{
		`"v":7`, payload(dead), `"unknown":{"deep":[1.50,{}]}`, `"createdAt":1720764000,"extra":{"b":1e3},"another":[]}`, `"attempt":3`,
	} {
		if !strings.Contains(string(record.Job), part) {
			t.Errorf("the dead letter's job lacks %s (it came as %s):\n%s", part, want, record.Job)
		}
	}
}

func TestEveryMessageHasItsFate(t *testing.T) {
	t.Parallel()
	l := newLab(t, strings.NewReplacer("REPLICAS", "1", "queue: play", "queue: play\n    max_size: 4096").Replace(playConfig))
	large := envelope("large", "play.job", `{"fill":"`+strings.Repeat("x", 5000)+`"}`)
	fates := []struct {
		body, reason, err string
		raw               bool
	}{
		{"hello", "malformed", "not JSON at byte 0", true},
		{`{"jobId":"a","payload":{}}`, "malformed", "no jobType", true},
		{`[1]`, "malformed", "not a JSON object", true},
		{envelope("scalar", "play.job", `42`), "malformed", "payload is not an object or list", true},
		{"{\"jobType\":\"\xff\"}", "malformed", "not UTF-8 at byte 12", true},
		{envelope("ghost", "ghost", `{}`), "unregistered", "unregistered jobType: ghost", false},
		{large, "too_large", "", true},
		{envelope("fails", "play.job", `{"do":["FAIL"]}`), "failed", "the script says FAIL", false},
		{envelope("panics", "play.job", `{"do":["PANIC"]}`), "exhausted", "", false},
	}
	for _, f := range fates {
		if err := l.client.LPush(t.Context(), "dq:ready:{play}", f.body).Err(); err != nil {
			t.Fatal(err)
		}
	}
	expired := `{"v":1,"jobId":"expired","jobType":"play.job","payload":{},"meta":{"deadline":1000},"attempt":1,"maxAttempts":5,"createdAt":1}`
	l.client.LPush(t.Context(), "dq:ready:{play}", expired)

	p := l.start(binaries.worker, nil, "run", "--process=play")
	eventually(t, 30*time.Second, "every message met its fate", func() bool {
		h := holds(t, l.client, "play")
		return h.waiting() == 0 && len(h.dead) == len(fates)
	})
	p.stop(10 * time.Second)

	type deadRecord struct {
		Job                                json.RawMessage
		Raw, Error, Reason, Queue, Process string
		Transport                          string
		At                                 int64
	}
	found := map[string]deadRecord{}
	for i := range fates {
		var record deadRecord
		l.deadLetter("play", int64(i), &record)
		key := record.Raw
		if key == "" {
			key = idOf(string(record.Job))
		}
		found[key] = record
	}
	for _, f := range fates {
		key := idOf(f.body)
		if f.raw {
			key = base64.StdEncoding.EncodeToString([]byte(f.body))
		}
		got, ok := found[key]
		switch {
		case !ok:
			t.Errorf("no dead letter for %.60q", f.body)
		case got.Reason != f.reason || !strings.Contains(got.Error, f.err):
			t.Errorf("%.60q is dead as %s (%s), want %s (%s)", f.body, got.Reason, got.Error, f.reason, f.err)
		case got.Queue != "play" || got.Process != "play" || got.Transport != "redis" || got.At == 0:
			t.Errorf("the dead letter of %.60q does not say where it comes from: %+v", f.body, got)
		}
	}
	named := regexp.MustCompile(`"jobId":"(job_[0-9a-f]{24})".*"reason":"malformed"`).FindStringSubmatch(p.stderr.String())
	if named == nil {
		t.Fatal("no log line names a malformed message")
	}
	if code, _, stderr := l.run(binaries.stock, "dlq", "show", named[1], "--process=play"); code != 0 {
		t.Errorf("dlq show of the id in the log: exit code %d, %s", code, stderr)
	}
	if runs := results(l.readLedger(), "SUCCESS")["expired"]; runs != 0 {
		t.Errorf("the expired job ran %d times", runs)
	}
	if !strings.Contains(p.stderr.String(), `"reason":"expired"`) {
		t.Error("no log line says that a job had expired")
	}
}
