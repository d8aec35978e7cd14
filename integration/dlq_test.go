package integration

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// bury LPUSHes n records to the dead letters of queue play.
func bury(l *lab, n int, record func(i int) string) {
	l.t.Helper()
	for batch := range slices.Chunk(numbers(0, n), 1000) {
		var records []any
		for _, i := range batch {
			records = append(records, record(i))
		}
		if err := l.client.LPush(l.t.Context(), "job:dead:{play}", records...).Err(); err != nil {
			l.t.Fatal(err)
		}
	}
}

func deadRecord(job string) string {
	return `{"job":` + job + `,"error":"it failed","at":1720764000,"reason":"failed","queue":"play","process":"play","transport":"redis"}`
}

// list is a list's elements, first in first.
func (l *lab) list(key string) []string {
	l.t.Helper()
	all, err := l.client.LRange(l.t.Context(), key, 0, -1).Result()
	if err != nil {
		l.t.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

func (l *lab) dead() []string { l.t.Helper(); return l.list("job:dead:{play}") }

func idsOf(bodies []string) []string {
	ids := make([]string, len(bodies))
	for i, body := range bodies {
		ids[i] = idOf(body)
	}
	return ids
}

// mixedDead buries dead letters of four types and returns the ids of one of them
// and the other records, both oldest first.
func mixedDead(l *lab, n int) (ids []string, others []string) {
	l.t.Helper()
	record := func(i int) string {
		return deadRecord(envelope(fmt.Sprintf("dead-%06d", i), fmt.Sprintf("play.t%d", i%7%4), `{"i":9007199254740993}`))
	}
	for i := range n {
		if i%7%4 == 2 {
			ids = append(ids, fmt.Sprintf("dead-%06d", i))
		} else {
			others = append(others, record(i))
		}
	}
	bury(l, n, record)
	return ids, others
}

func TestDeadLettersOfOneTypeAreReplayedExactlyOnceAlthoughTheReplayIsKilled(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	n := sized(7_000, 100_000)
	ids, others := mixedDead(l, n)
	replay := []string{"dlq", "replay", "--process=play", "--type=play.t2", fmt.Sprintf("--rate=%d", len(ids)/4)}

	// place checks that every id is in one place, and in its place.
	place := func() (replayed int) {
		t.Helper()
		ready, dead := idsOf(l.list("dq:ready:{play}")), l.dead()
		replayed = len(ready)
		if replayed > len(ids) || !slices.Equal(ready, ids[:replayed]) {
			t.Fatalf("%d are ready, not the %d oldest of the type in their order", replayed, replayed)
		}
		var left, stayed []string
		for _, record := range dead {
			if strings.Contains(record, `"jobType":"play.t2"`) {
				left = append(left, idOf(record))
			} else {
				stayed = append(stayed, record)
			}
		}
		if !slices.Equal(left, ids[replayed:]) {
			t.Fatalf("%d dead letters of the type are left beside %d ready jobs of %d", len(left), replayed, len(ids))
		}
		if !slices.Equal(stayed, others) {
			t.Fatalf("the dead letters of the other types are not what and where they were: %d of %d", len(stayed), len(others))
		}
		return replayed
	}

	p := l.start(binaries.stock, nil, replay...)
	eventually(t, 30*time.Second, "half of it is replayed", func() bool {
		return l.client.LLen(t.Context(), "dq:ready:{play}").Val() >= int64(len(ids)/2) || p.gone()
	})
	p.kill()
	first := place()
	if first == len(ids) {
		t.Fatal("the replay was not killed midway")
	}
	start := time.Now()
	code, stdout, stderr := l.run(binaries.stock, replay...)
	if want := fmt.Sprintf("%d jobs replayed to play\n", len(ids)-first); code != 0 || stdout != want || stderr != "" {
		t.Errorf("exit code %d, stdout %q, want %q, stderr %q", code, stdout, want, stderr)
	}
	if least := time.Duration(len(ids)-first) * 4 * time.Second / time.Duration(len(ids)); time.Since(start) < least-100*time.Millisecond {
		t.Errorf("%d jobs took %s at a quarter of them a second", len(ids)-first, time.Since(start))
	}
	if place() != len(ids) {
		t.Error("not all of the type are ready")
	}
	t.Logf("%d of %d dead letters, killed at %d", len(ids), n, first)
	if body := l.client.LIndex(t.Context(), "dq:ready:{play}", 0).Val(); !strings.Contains(body, `"payload":{"i":9007199254740993}`) || !strings.Contains(body, `"replayed":1`) {
		t.Errorf("a replayed job is %s", body)
	}
}

func TestPurgeRemovesWhatTheFiltersChooseAndNothingElse(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	ids, others := mixedDead(l, 7_000)
	bury(l, 2, func(i int) string { return fmt.Sprintf("no record %d", i) })
	others = append(others, "no record 0", "no record 1")
	purge := func(want int, args ...string) string {
		t.Helper()
		code, stdout, stderr := l.run(binaries.stock, append([]string{"dlq", "purge", "--process=play"}, args...)...)
		if code != want {
			t.Fatalf("dlq purge %v: exit code %d, want %d: %s%s", args, code, want, stdout, stderr)
		}
		return stdout + stderr
	}
	if text := purge(2); !strings.Contains(text, "--yes") || len(l.dead()) != 7_002 {
		t.Errorf("a purge without a filter: %s", text)
	}
	if text := purge(0, "--dry-run"); text != "7002 dead letters of play would be purged\n" {
		t.Errorf("a dry run: %s", text)
	}
	if text := purge(1, "--id=nobody"); !strings.Contains(text, "nobody") {
		t.Errorf("an unknown id: %s", text)
	}
	if purge(0, "--id="+ids[0]); slices.Contains(idsOf(l.dead()), ids[0]) {
		t.Error("the one with the id is still there")
	}

	p := l.start(binaries.stock, nil, "dlq", "purge", "--process=play", "--type=*.t2", "--rate=500")
	eventually(t, 30*time.Second, "half of it is purged", func() bool {
		return l.client.LLen(t.Context(), "job:dead:{play}").Val() <= int64(len(others)+len(ids)/2) || p.gone()
	})
	p.kill()
	rest := len(l.dead()) - len(others)
	if rest <= 0 || rest >= len(ids) {
		t.Fatalf("the purge was not killed midway: %d of %d are left", rest, len(ids))
	}
	if text := purge(0, "--type=*.t2", "--since=2024-01-01T00:00:00Z"); text != fmt.Sprintf("%d dead letters of play purged\n", rest) {
		t.Errorf("the purge of the rest: %s", text)
	}
	if !slices.Equal(l.dead(), others) {
		t.Error("the others are not what and where they were")
	}
	if purge(0, "--limit=10"); !slices.Equal(l.dead(), others[10:]) {
		t.Error("a limited purge did not take the oldest")
	}
	if purge(0, "--yes"); len(l.dead()) != 0 {
		t.Error("something is left")
	}
}

func TestExportIsOneLineAnEntryAndIsPublishedBack(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	const payload = "{\n  \"big\": 9007199254740993,\r\n  \"one\": 1.0, \"text\": \"a  b\\n<\", \"empty\": [ ]\n}"
	const compact = `{"big":9007199254740993,"one":1.0,"text":"a  b\n<","empty":[]}`
	records := []string{
		deadRecord(envelope("lines", "play.job", payload)),
		`{"job":` + envelope("php", "play.job", `[]`) + `,"error":"it failed","at":1720764000}`,
		"not\na record",
		deadRecord(envelope("plain", "play.other", `{ "spaced": 1 }`)),
	}
	bury(l, len(records), func(i int) string { return records[i] })

	code, stdout, stderr := l.run(binaries.stock, "dlq", "export", "--process=play")
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	if code != 0 || stderr != "" || len(lines) != len(records) {
		t.Fatalf("exit code %d, %d lines, %s", code, len(lines), stderr)
	}
	if !strings.Contains(lines[0], `"payload":`+compact) || lines[1] != records[1] || lines[3] != records[3] {
		t.Errorf("the lines are\n%s", stdout)
	}
	if !strings.Contains(lines[2], `"raw":"`+base64.StdEncoding.EncodeToString([]byte(records[2]))) {
		t.Errorf("what is no record became %s", lines[2])
	}
	code, stdout, _ = l.run(binaries.stock, "dlq", "export", "--process=play", "-o", "json")
	var array []map[string]any
	if err := json.Unmarshal([]byte(stdout), &array); code != 0 || err != nil || len(array) != len(records) {
		t.Errorf("as an array: exit code %d, %v, %d records", code, err, len(array))
	}

	file := filepath.Join(t.TempDir(), "export.ndjson")
	publish := func(text string) (int, string, string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return l.run(binaries.stock, "publish", "--process=play", "--file="+file)
	}
	for verb, args := range map[string][]string{"export": {"export", "--reason=failed"}, "replay --stdout": {"replay", "--stdout", "--reason=failed"}} {
		l.client.Del(t.Context(), "dq:ready:{play}")
		_, stdout, _ = l.run(binaries.stock, append([]string{"dlq", "--process=play"}, args...)...)
		if code, ids, stderr := publish(stdout); code != 0 || ids != "lines\nplain\n" {
			t.Errorf("%s is published back with exit code %d, %q, %s", verb, code, ids, stderr)
		}
		ready := l.list("dq:ready:{play}")
		if len(ready) != 2 || !strings.Contains(ready[0], `"payload":`+compact) || !strings.Contains(ready[1], `"payload":{ "spaced": 1 }`) {
			t.Errorf("%s: published back: %q", verb, ready)
		}
	}
	if !slices.Equal(l.dead(), records) {
		t.Error("the dead letters changed")
	}
	if code, _, stderr := l.run(binaries.stock, "dlq", "export", "--process=play", "--id=nobody"); code != 1 || !strings.Contains(stderr, "nobody") {
		t.Errorf("an unknown id: exit code %d, %s", code, stderr)
	}
}
