package redis

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
)

// slowTarget counts what is replayed, and holds the first publish up until it is
// told to go on.
type slowTarget struct {
	mu      sync.Mutex
	seen    map[string]int
	first   sync.Once
	reached chan struct{}
	goOn    chan struct{}
}

func (s *slowTarget) Publish(_ context.Context, msgs []core.Message) []error {
	s.first.Do(func() {
		close(s.reached)
		<-s.goOn
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range msgs {
		s.seen[m.ID]++
	}
	return nil
}

func TestTwoReplaysAtOnceReplayEachJobOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.open(quick)
	w.push(jobs(50)...)
	var batch []core.Settlement
	for _, d := range w.receive(s, 50) {
		batch = append(batch, core.Settlement{D: d, Verdict: core.VerdictDead, Dead: deadRecord(t, d)})
	}
	for _, err := range w.settle(s, batch...) {
		if err != nil {
			t.Fatal(err)
		}
	}
	target := &slowTarget{seen: map[string]int{}, reached: make(chan struct{}), goOn: make(chan struct{})}
	replay := func() error {
		store, err := w.driver(quick).OpenDeadLetters(t.Context(), binding())
		if err == nil {
			_, err = deadletter.Replay(t.Context(), store, target, deadletter.Filter{}, deadletter.ReplayOptions{})
		}
		return err
	}
	results := make(chan error, 2)
	go func() { results <- replay() }()
	<-target.reached
	w.raw.ConfigResetStat(t.Context())
	go func() { results <- replay() }()
	w.eventually("the second replay asks for the lock", func() bool {
		return contains(w.raw.Info(t.Context(), "commandstats").Val(), "cmdstat_set:")
	})
	close(target.goOn)
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	for id, n := range target.seen {
		if n != 1 {
			t.Errorf("job %s was replayed %d times", id, n)
		}
	}
	if len(target.seen) != 50 || len(w.list(w.keys.dead)) != 0 || w.raw.Exists(t.Context(), w.keys.dead+":replay").Val() != 0 {
		t.Errorf("%d jobs were replayed, dead letters left: %d", len(target.seen), len(w.list(w.keys.dead)))
	}
}

func TestAReplayGivesUpWhileAnotherRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lock := w.keys.dead + ":replay"
	w.raw.Set(t.Context(), lock, "another", time.Minute)
	store, err := w.driver(quick).OpenDeadLetters(t.Context(), binding())
	if err != nil {
		t.Fatal(err)
	}
	_, err = deadletter.Replay(t.Context(), store, &slowTarget{}, deadletter.Filter{}, deadletter.ReplayOptions{})
	if err == nil || !contains(err.Error(), "another replay") {
		t.Fatalf("replay: %v", err)
	}
	if w.raw.Get(t.Context(), lock).Val() != "another" {
		t.Error("the other's lock was taken")
	}
}
