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
	DryRun   bool         // only count
	Rate     float64      // jobs a second at most; 0 = no limit
	Batch    int          // jobs between two removals: at most so many run twice after an interruption; default 100
	Format   core.Format  // of the target's jobs; default core.FormatJob
	Progress func(Report) // called after each batch; may be nil
}

// Report is what a replay did.
type Report struct {
	Replayed   int // published, confirmed and removed (dry run: would be)
	Unreadable int // chosen, but not a job: left where they are
	Doubled    int // published, but perhaps not removed: they may run twice
}

// Replay publishes the jobs that f chooses, oldest first, with a fresh attempt
// budget. An entry leaves the store only after its publish is confirmed: whatever
// interrupts it, no job is lost and at most a batch of them is there twice.
// Entries that cannot be read are left and counted. Where the store is an Excluder,
// one replay runs at a time.
func Replay(ctx context.Context, s Store, to Target, f Filter, o ReplayOptions) (Report, error) {
	r := replay{to: to, filter: f, options: o, left: f.Limit}
	if r.options.Batch <= 0 {
		r.options.Batch = 100
	}
	if x, ok := s.(Excluder); ok && !o.DryRun {
		held, release, err := x.Exclude(ctx)
		if err != nil {
			return r.report, err
		}
		defer release()
		ctx = held
	}
	err := s.Visit(ctx, func(page []*Entry) ([]*Entry, error) { return r.page(ctx, page) })
	if err != nil && err != r.failed {
		// The store's error: the last page was published, but perhaps not removed.
		r.report.Replayed -= r.unremoved
		r.report.Doubled = r.unremoved
	}
	return r.report, err
}

type replay struct {
	to      Target
	filter  Filter
	options ReplayOptions
	report  Report
	left    int // of the limit; counts down from 0 without one

	unremoved int   // replayed, not known to be removed
	failed    error // of publishing
}

// page replays what is chosen of one page, at most a batch of it, and returns
// what may be removed.
func (r *replay) page(ctx context.Context, page []*Entry) (remove []*Entry, err error) {
	r.unremoved = 0 // the visit went on, so the last page's are
	var chosen []*Entry
	for _, e := range page {
		if !r.filter.Match(e) {
			continue
		}
		if e.Err != nil { // not counted, else a few of them would block every limited replay
			r.report.Unreadable++
			continue
		}
		chosen = append(chosen, e)
		if r.left--; r.left == 0 {
			err = ErrEnough
			break
		}
	}
	if r.options.DryRun {
		r.report.Replayed += len(chosen)
		return nil, err
	}
	for len(chosen) > 0 {
		n := min(len(chosen), r.options.Batch)
		stored, perr := r.publish(ctx, chosen[:n])
		remove = append(remove, stored...)
		r.report.Replayed += len(stored)
		r.unremoved += len(stored)
		if r.options.Progress != nil {
			r.options.Progress(r.report)
		}
		if perr != nil {
			r.failed = perr
			return remove, perr
		}
		chosen = chosen[n:]
	}
	return remove, err
}

// publish sends one batch, keeps the rate, and returns what was confirmed.
func (r *replay) publish(ctx context.Context, batch []*Entry) (stored []*Entry, err error) {
	if r.options.Rate > 0 {
		pause := time.NewTimer(time.Duration(float64(len(batch)) / r.options.Rate * float64(time.Second)))
		defer pause.Stop()
		defer func() {
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	msgs := make([]core.Message, len(batch))
	for i, e := range batch {
		job, err := Revive(e.Record.Job, time.Now())
		if err != nil {
			return nil, err
		}
		msgs[i] = message(job.As(r.options.Format))
	}
	errs := r.to.Publish(ctx, msgs)
	for i, e := range batch {
		if errs == nil || errs[i] == nil {
			stored = append(stored, e)
		} else if err == nil {
			err = fmt.Errorf("replay job %s: %w", e.ID, errs[i])
		}
	}
	return stored, err
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
