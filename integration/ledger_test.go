package integration

import (
	"bufio"
	"bytes"
	"cmp"
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

// holdings are the ids that Redis holds for a queue, place by place.
type holdings struct {
	ready, delayed, processing, dead []string
}

func (h holdings) waiting() int { return len(h.ready) + len(h.delayed) + len(h.processing) }

// snapshot reads every place of a queue in one step, so that no job moves from a
// place that is still to be read to one that was read.
var snapshot = redis.NewScript(`
local q = ARGV[1]
local processing = {}
for _, key in ipairs(redis.call('KEYS', 'dq:processing:{' .. q .. '}:*')) do
	for _, body in ipairs(redis.call('LRANGE', key, 0, -1)) do
		table.insert(processing, body)
	end
end
return {
	redis.call('LRANGE', 'dq:ready:{' .. q .. '}', 0, -1),
	redis.call('ZRANGE', 'dq:delay:{' .. q .. '}', 0, -1),
	processing,
	redis.call('LRANGE', 'job:dead:{' .. q .. '}', 0, -1),
}`)

// holds is what a queue (hash-tagged keys, prefix dq) holds now.
func holds(t *testing.T, client *redis.Client, queue string) holdings {
	t.Helper()
	reply, err := snapshot.Run(t.Context(), client, nil, queue).Slice()
	if err != nil {
		t.Fatalf("read queue %s: %v", queue, err)
	}
	places := make([][]string, len(reply))
	for i, place := range reply {
		bodies, _ := place.([]any)
		for _, body := range bodies {
			text, _ := body.(string)
			places[i] = append(places[i], idOf(text))
		}
	}
	return holdings{ready: places[0], delayed: places[1], processing: places[2], dead: places[3]}
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

// idOf is the jobId of an envelope or of a dead-letter record's job, or the whole
// text when there is none.
func idOf(body string) string {
	var e struct {
		JobID string `json:"jobId"`
		Job   struct {
			JobID string `json:"jobId"`
		} `json:"job"`
	}
	if json.Unmarshal([]byte(body), &e) != nil || e.JobID == "" && e.Job.JobID == "" {
		return body
	}
	return cmp.Or(e.JobID, e.Job.JobID)
}

// conserve is the conservation rule: every published id has SUCCESS or DISCARD in
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
	all := runs()
	done := results(all, "SUCCESS", "DISCARD")
	var missing []string
	for _, id := range published {
		if !held[id] && done[id] == 0 {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d jobs are nowhere, for example %s", len(missing), len(published), missing[0])
		for _, r := range all {
			if r.ID == missing[0] {
				t.Errorf("that job ran as attempt %d of process %d with result %s", r.Attempt, r.PID, r.Result)
			}
		}
	}
	for _, n := range results(all, "SUCCESS", "DISCARD", "FAIL") {
		duplicates += n - 1
	}
	return duplicates
}

// push LPUSHes envelopes as a foreign producer would and returns their ids in
// order.
func push(t *testing.T, client *redis.Client, queue, jobType string, n int, payload func(i int) string) []string {
	t.Helper()
	return pushFrom(t, client, queue, jobType, 0, n, payload)
}

// pushFrom is push for jobs that are numbered from first.
func pushFrom(t *testing.T, client *redis.Client, queue, jobType string, first, n int, payload func(i int) string) []string {
	t.Helper()
	var ids []string
	for batch := range slices.Chunk(numbers(first, n), 1000) {
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

func numbers(first, n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = first + i
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
