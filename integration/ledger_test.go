package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// run is one run of a handler, as the handler itself noted it.
type run struct {
	ID      string `json:"id"`
	Attempt int    `json:"attempt"`
	Start   int64  `json:"start"` // unix ms
	Result  string `json:"result"`
	PID     int    `json:"pid"`
	Payload []byte `json:"payload"`
}

// ledger holds the runs of one test. Handlers outside the binary add to it; those
// of the worker write the lab's file.
type ledger struct {
	mu   sync.Mutex
	runs []run
}

func (l *ledger) add(r run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, r)
}

func (l *ledger) all() []run {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.runs)
}

// readLedger reads the file that workers wrote; a missing one has no runs.
func (l *lab) readLedger() []run {
	l.t.Helper()
	text, err := os.ReadFile(l.ledger)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		l.t.Fatal(err)
	}
	// A line that is being written now counts when it is complete.
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	var runs []run
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for scanner.Scan() {
		var r run
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			l.t.Fatalf("ledger line %q: %v", scanner.Text(), err)
		}
		runs = append(runs, r)
	}
	return runs
}

// results counts the runs of each job with one of the results.
func results(runs []run, wanted ...string) map[string]int {
	counts := map[string]int{}
	for _, r := range runs {
		if slices.Contains(wanted, r.Result) {
			counts[r.ID]++
		}
	}
	return counts
}

// holdings are the ids that Redis holds for a queue, place by place, read with
// plain commands.
type holdings struct {
	ready, delayed, processing, dead []string
}

func (h holdings) waiting() int { return len(h.ready) + len(h.delayed) + len(h.processing) }

// holds reads every place of a queue (hash-tagged keys, prefix dq).
func holds(t *testing.T, client *redis.Client, queue string) holdings {
	t.Helper()
	ctx := t.Context()
	var h holdings
	var err error
	list := func(key string) []string {
		var bodies []string
		if err == nil {
			bodies, err = client.LRange(ctx, key, 0, -1).Result()
		}
		return bodies
	}
	h.ready = idsOf(list("dq:ready:{" + queue + "}"))
	var delayed []string
	if err == nil {
		delayed, err = client.ZRange(ctx, "dq:delay:{"+queue+"}", 0, -1).Result()
	}
	h.delayed = idsOf(delayed)
	for _, key := range keys(t, client, "dq:processing:{"+queue+"}:*") {
		h.processing = append(h.processing, idsOf(list(key))...)
	}
	for _, body := range list("job:dead:{" + queue + "}") {
		var record struct{ Job json.RawMessage }
		if json.Unmarshal([]byte(body), &record) != nil {
			record.Job = json.RawMessage(body) // a test's own bad entry
		}
		h.dead = append(h.dead, idOf(string(record.Job)))
	}
	if err != nil {
		t.Fatalf("read queue %s: %v", queue, err)
	}
	return h
}

func keys(t *testing.T, client *redis.Client, pattern string) []string {
	t.Helper()
	var found []string
	scan := client.Scan(t.Context(), 0, pattern, 1000).Iterator()
	for scan.Next(t.Context()) {
		found = append(found, scan.Val())
	}
	if err := scan.Err(); err != nil {
		t.Fatalf("scan %s: %v", pattern, err)
	}
	return found
}

func idsOf(bodies []string) []string {
	var ids []string
	for _, body := range bodies {
		ids = append(ids, idOf(body))
	}
	return ids
}

// idOf is the jobId of an envelope, or the whole text when it has none.
func idOf(body string) string {
	var e struct {
		JobID string `json:"jobId"`
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.JobID == "" {
		return body
	}
	return e.JobID
}

// conserve is the conservation rule: every published id has a terminal result in
// the ledger or is held by the broker. It returns how many runs with a terminal
// result there were beyond one a job. The broker is read before the ledger.
func conserve(t *testing.T, published []string, h holdings, runs func() []run) (duplicates int) {
	t.Helper()
	held := map[string]bool{}
	for _, place := range [][]string{h.ready, h.delayed, h.processing, h.dead} {
		for _, id := range place {
			held[id] = true
		}
	}
	terminal := results(runs(), "SUCCESS", "DISCARD", "FAIL")
	for _, n := range terminal {
		duplicates += n - 1
	}
	var missing []string
	for _, id := range published {
		if !held[id] && terminal[id] == 0 {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d jobs are nowhere, for example %s", len(missing), len(published), missing[0])
	}
	return duplicates
}

// push LPUSHes envelopes as a foreign producer would and returns their ids in
// order.
func push(t *testing.T, client *redis.Client, queue, jobType string, n int, payload func(i int) string) []string {
	t.Helper()
	var ids []string
	for batch := range slices.Chunk(numbers(n), 1000) {
		pipe := client.Pipeline()
		for _, i := range batch {
			id := fmt.Sprintf("%s-%06d", queue, i)
			ids = append(ids, id)
			pipe.LPush(t.Context(), "dq:ready:{"+queue+"}", envelope(id, jobType, payload(i)))
		}
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatalf("push: %v", err)
		}
	}
	return ids
}

func envelope(id, jobType, payload string) string {
	return fmt.Sprintf(`{"v":1,"jobId":%q,"jobType":%q,"payload":%s,"meta":{"tenantId":"t1"},"attempt":1,"maxAttempts":5,"createdAt":1720764000}`, id, jobType, payload)
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// sameIDs fails the test unless both hold the same ids, each once.
func sameIDs(t *testing.T, what string, got, want []string) {
	t.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if slices.Equal(got, want) {
		return
	}
	extra, missing := map[string]int{}, map[string]int{}
	for _, id := range got {
		extra[id]++
	}
	for _, id := range want {
		if extra[id] > 0 {
			extra[id]--
		} else {
			missing[id]++
		}
	}
	maps.DeleteFunc(extra, func(_ string, n int) bool { return n == 0 })
	t.Errorf("%s: %d ids, want %d; too many: %v; missing: %v", what, len(got), len(want), extra, missing)
}
