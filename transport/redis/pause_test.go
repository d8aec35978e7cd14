package redis

import (
	"context"
	"testing"

	"github.com/goconsumer/consumer/core"
)

func TestAPausedQueueIsPausedForEveryConsumerAndThoseThatComeLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var runs ledger
	note := func(_ context.Context, j *core.Job) error {
		runs.note(j.ID)
		return nil
	}
	workers := []*worker{w.work(Options{}, note), w.work(Options{}, note)} // leases of 15 s: it is the bell that tells them
	driver := w.driver(Options{})
	become := func(what string, paused bool) {
		t.Helper()
		w.eventually(what, func() bool {
			for _, worker := range workers {
				if s := worker.engine.Status(); !s.Ready || s.Paused != paused {
					return false
				}
			}
			return true
		})
	}
	w.blocked(4)
	if err := driver.PauseQueue(t.Context(), binding(), true); err != nil {
		t.Fatal(err)
	}
	become("both are paused", true)
	w.push(jobs(20)...)
	workers = append(workers, w.work(Options{}, note))
	become("one that started later is paused too", true)
	stats, err := driver.Inspect(t.Context(), binding())
	if err != nil || stats.Paused == nil || !*stats.Paused || *stats.Ready != 20 || *stats.InFlight != 0 {
		t.Errorf("paused: %+v, %v", stats, err)
	}
	if err := driver.PauseQueue(t.Context(), binding(), false); err != nil {
		t.Fatal(err)
	}
	become("all work again", false)
	w.eventually("all jobs have run", func() bool { return runs.distinct() == 20 })
	if n := w.raw.Exists(t.Context(), "dq:paused:{orders}").Val(); n != 0 {
		t.Error("the key of the pause is still there")
	}
}

func TestAPauseThatAnotherProgramSetIsSeenAtTheNextRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	worker := w.work(quick, func(context.Context, *core.Job) error { return nil })
	w.eventually("it works", func() bool { return worker.engine.Status().Ready })
	w.raw.Set(t.Context(), w.keys.paused, "yes", 0)
	w.eventually("it is paused", func() bool { return worker.engine.Status().Paused })
	w.raw.Del(t.Context(), w.keys.paused)
	w.eventually("it works again", func() bool { s := worker.engine.Status(); return s.Ready && !s.Paused })
}
