package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Target takes replayed jobs; a core.PublishPort is one.
type Target interface {
	// Publish stores every message and waits for the broker's word: nil when all
	// are stored, else an error (or nil) for each.
	Publish(ctx context.Context, msgs []core.Message) []error
}

// ReplayOptions of one replay.
type ReplayOptions struct {
	DryRun bool    // only count
	Rate   float64 // jobs a second at most; 0 = no limit
	// Batch is how many jobs are published before their entries are removed: at
	// most so many run twice after an interruption, and none where the store can
	// move them (see Mover). Default 100, and 500 in one move.
	Batch    int
	Format   core.Format  // of the target's jobs; default core.FormatJob
	Progress func(Report) // called after each step; may be nil
}

// Default sizes of a batch.
const (
	publishBatch = 100
	moveBatch    = 500
)

// Report is what a replay did.
type Report struct {
	Visited    int // entries looked at, chosen or not
	Replayed   int // stored at the target and removed (dry run: would be)
	Unreadable int // chosen, but not a job: left where they are
	Doubled    int // published, but perhaps not removed: they may run twice
}

// Replay publishes the jobs that f chooses, oldest first, with a fresh attempt
// budget. An entry leaves the store in the same step in which its job is stored at
// the target, where the store's pages are Movers; else only after its publish is
// confirmed. Whatever interrupts it, no job is lost and at most a batch of them is
// there twice. Entries that cannot be read are left and counted; the others keep
// their places. Where the store is an Excluder, one replay runs at a time.
func Replay(ctx context.Context, s Store, to Target, f Filter, o ReplayOptions) (Report, error) {
	r := replay{to: to, filter: f, options: o, left: f.Limit, direct: true}
	if x, ok := s.(Excluder); ok && !o.DryRun {
		held, release, err := x.Exclude(ctx)
		if err != nil {
			return r.report, err
		}
		defer release()
		ctx = held
	}
	err := s.Visit(ctx, func(page Page) error { return r.page(ctx, page) })
	return r.report, err
}

type replay struct {
	to      Target
	filter  Filter
	options ReplayOptions
	report  Report
	left    int  // of the limit; counts down from 0 without one
	direct  bool // the store may be able to move: not refused so far
}

// page replays what is chosen of one page.
func (r *replay) page(ctx context.Context, page Page) error {
	chosen, enough := r.filter.choose(page.Entries(), &r.left, func(e *Entry) bool {
		if e.Err != nil { // not of the limit, else a few of them would block every limited replay
			r.report.Unreadable++
		}
		return e.Err == nil
	})
	visited := r.report.Visited + len(page.Entries())
	if r.options.DryRun {
		r.report.Replayed += len(chosen)
		chosen = nil
	}
	for len(chosen) > 0 {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		batch := chosen[:min(r.batch(page), len(chosen))]
		chosen = chosen[len(batch):]
		if err := throttle(ctx, r.options.Rate, len(batch), func() error {
			defer r.progress(visited - len(chosen))
			return r.replay(ctx, page, batch)
		}); err != nil {
			return err
		}
	}
	r.progress(visited)
	if enough {
		return ErrEnough
	}
	return ctx.Err()
}

func (r *replay) progress(visited int) {
	r.report.Visited = visited
	if r.options.Progress != nil {
		r.options.Progress(r.report)
	}
}

// batch is how many jobs of the page go at once.
func (r *replay) batch(page Page) int {
	batch := r.options.Batch
	if _, moves := page.(Mover); batch <= 0 && moves && r.direct {
		batch = moveBatch
	} else if batch <= 0 {
		batch = publishBatch
	}
	return paced(r.options.Rate, batch)
}

// replay moves one batch, or publishes it and then removes what was confirmed.
func (r *replay) replay(ctx context.Context, page Page, batch []*Entry) error {
	msgs := make([]core.Message, len(batch))
	for i, e := range batch {
		job, err := Revive(e.Record.Job, time.Now())
		if err != nil {
			return err
		}
		msgs[i] = message(job.As(r.options.Format))
	}
	if mover, ok := page.(Mover); ok && r.direct {
		moved, err := mover.Move(ctx, r.to, batch, msgs)
		if !errors.Is(err, errors.ErrUnsupported) {
			r.report.Replayed += moved
			return err
		}
		r.direct = false
	}
	for size := r.batch(page); len(batch) > 0; {
		n := min(size, len(batch))
		if err := r.publish(ctx, page, batch[:n], msgs[:n]); err != nil {
			return err
		}
		batch, msgs = batch[n:], msgs[n:]
	}
	return nil
}

func (r *replay) publish(ctx context.Context, page Page, batch []*Entry, msgs []core.Message) error {
	var stored []*Entry
	var failed error
	errs := r.to.Publish(ctx, msgs)
	for i, e := range batch {
		if errs == nil || errs[i] == nil {
			stored = append(stored, e)
		} else if failed == nil {
			failed = fmt.Errorf("replay job %s: %w", e.ID, errs[i])
		}
	}
	if _, err := page.Remove(ctx, stored); err != nil {
		r.report.Doubled += len(stored)
		return err
	}
	r.report.Replayed += len(stored)
	return failed
}

// Revive is a job as a replay sends it: attempt 1, one replay more, and without
// what its earlier life left behind. Everything else is unchanged.
func Revive(job *core.Job, now time.Time) (*core.Job, error) {
	fresh := *job
	fresh.Attempt = 1
	fresh.Meta.Delete("crashes", "deferred", "lastError")
	if deadline, set := fresh.Meta.Deadline(); set && !now.Before(deadline) {
		fresh.Meta.Delete("deadline")
	}
	if err := fresh.Meta.Set("replayed", job.Meta.Replayed()+1); err != nil {
		return nil, errors.New("replay job " + job.ID + ": its meta cannot be written")
	}
	return &fresh, nil
}

func message(job *core.Job) core.Message {
	priority, _ := job.Meta.Priority()
	return core.Message{
		Body: job.Append(nil), ID: job.ID, Type: job.Type,
		Key: job.Meta.PartitionKey(), Priority: priority,
	}
}
