package integration

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// playConfig is a process for the worker's scripted jobs; a vanished worker's
// lease is over soon.
const playConfig = `
transports:
  redis: {url: "REDIS"}
processes:
  play:
    transport: redis
    queue: play
    concurrency: 8
    replicas: REPLICAS
    max_crashes: 3
    handler_timeout: 2s
    shutdown_timeout: 5s
    retry: {type: fixed, max_attempts: 3, base_delay: 100ms, jitter: 0}
    redis: {lease: 2s, delay_poll: 100ms, sweep: 500ms}
`

// maxInFlight is what a worker of playConfig may hold: running, prefetched or
// finished and not yet settled.
const maxInFlight = 64

func newPlay(t *testing.T, replicas string) *lab {
	t.Helper()
	return newLab(t, strings.ReplaceAll(playConfig, "REPLICAS", replicas))
}

// awaitEmpty waits until nothing waits in the queue any more.
func (l *lab) awaitEmpty(queue string, limit time.Duration) {
	l.t.Helper()
	eventually(l.t, limit, "the queue is empty", func() bool {
		return holds(l.t, l.client, queue).waiting() == 0
	})
}

func TestWorkersKilledAtRandomMomentsLoseNothing(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	kills, perKill := sized(6, 30), 400

	l := newPlay(t, "1")
	payload := func(i int) string {
		switch {
		case i%100 == 7:
			return `{"do":["FAIL"],"ms":5}`
		case i%10 == 3:
			return `{"do":["RETRY","SUCCESS"],"ms":5}`
		}
		return `{"ms":5}`
	}
	var published []string
	for range kills {
		before := len(l.readLedger())
		// More than the kill waits for, however late this test looks.
		published = append(published, pushFrom(t, l.client, "play", "play.job", len(published), perKill, payload)...)
		p := l.start(binaries.worker, nil, "run", "--process=play")
		// A random moment under load: after some number of further runs, wherever
		// that finds the worker.
		goal := before + 1 + random.IntN(perKill/2)
		eventually(t, 30*time.Second, "the worker is at work", func() bool { return len(l.readLedger()) >= goal })
		p.kill()
		conserve(t, published, holds(t, l.client, "play"), l.readLedger)
	}
	p := l.start(binaries.worker, nil, "run", "--process=play")
	l.awaitEmpty("play", 2*time.Minute)
	p.stop(10 * time.Second)

	h := holds(t, l.client, "play")
	duplicates := conserve(t, published, h, l.readLedger)
	if limit := kills * maxInFlight; duplicates > limit {
		t.Errorf("%d duplicates after %d kills, at most %d were in flight", duplicates, kills, limit)
	}
	t.Logf("%d jobs, %d kills, %d duplicates", len(published), kills, duplicates)
	var failed []string
	for i, id := range published {
		if i%100 == 7 {
			failed = append(failed, id)
		}
	}
	sameIDs(t, "dead letters", h.dead, failed)
	if len(h.processing) > 0 {
		t.Errorf("processing lists still hold %d jobs", len(h.processing))
	}
}

func TestB50_AJobThatKillsItsWorkerStopsAloneAndInnocentsPass(t *testing.T) {
	t.Parallel()
	for _, replicas := range []string{"1", "2"} {
		t.Run("replicas "+replicas, func(t *testing.T) {
			t.Parallel()
			const crashLimit = 3 // max_crashes of playConfig
			l := newPlay(t, replicas)
			published := push(t, l.client, "play", "play.job", 20, func(i int) string {
				if i == 9 {
					return `{"do":["KILL"]}`
				}
				return `{"ms":300}`
			})
			killer := published[9]

			restarts := 0
			p := l.start(binaries.worker, nil, "run", "--process=play")
			eventually(t, 2*time.Minute, "19 innocents succeeded and the killer is a dead letter", func() bool {
				if p.gone() {
					restarts++
					p = l.start(binaries.worker, nil, "run", "--process=play")
				}
				return len(results(l.readLedger(), "SUCCESS")) == 19 && len(holds(t, l.client, "play").dead) == 1
			})
			l.awaitEmpty("play", 10*time.Second)
			p.stop(10 * time.Second)

			sameIDs(t, "dead letters", holds(t, l.client, "play").dead, []string{killer})
			if reason := l.deadReason("play"); reason != "crashed" {
				t.Errorf("the killer's dead letter has reason %q", reason)
			}
			runs := results(l.readLedger(), "KILL")[killer]
			if runs > crashLimit+3 {
				t.Errorf("the killer ran %d times, at most %d are allowed", runs, crashLimit+3)
			}
			if restarts > crashLimit+3 {
				t.Errorf("the worker vanished %d times, at most %d are allowed", restarts, crashLimit+3)
			}
			t.Logf("the killer ran %d times, %d restarts", runs, restarts)
		})
	}
}

// deadReason is the reason of the newest dead letter.
func (l *lab) deadReason(queue string) string {
	l.t.Helper()
	var record struct {
		Reason string `json:"reason"`
	}
	l.deadLetter(queue, 0, &record)
	return record.Reason
}

func (l *lab) deadLetter(queue string, index int64, into any) {
	l.t.Helper()
	body, err := l.client.LIndex(l.t.Context(), "job:dead:{"+queue+"}", index).Bytes()
	if err != nil {
		l.t.Fatalf("read dead letter %d: %v", index, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		l.t.Fatalf("dead letter %s: %v", body, err)
	}
}
