package cli

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/goconsumer/consumer/deadletter"
)

// dlqProgress is a bar on a terminal: how far a verb is through the dead letters
// and how many it has done. Without a terminal it shows nothing.
type dlqProgress struct {
	bars *mpb.Progress
	bar  *mpb.Bar
	done atomic.Int64
}

// progress starts the bar of a verb; done is its word, e.g. replayed.
func (d *dlq) progress(cmd *cobra.Command, done string) *dlqProgress {
	p := &dlqProgress{}
	stderr := d.brokers.program.process.Stderr
	if !isTerminal(stderr) {
		return p
	}
	total, err := d.store.Count(cmd.Context())
	if err != nil { // the verb itself will say so
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(48))
	p.bar = p.bars.AddBar(total,
		mpb.PrependDecorators(decor.CountersNoUnit("%d / %d ")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return fmt.Sprintf(" %d %s", p.done.Load(), done) })))
	return p
}

// at says how many entries were looked at and how many of them are done.
func (p *dlqProgress) at(visited, done int) {
	if p.bar != nil {
		p.done.Store(int64(done))
		p.bar.SetCurrent(int64(visited))
	}
}

// end leaves the bar where it is.
func (p *dlqProgress) end() {
	if p.bar != nil {
		p.bar.SetTotal(-1, true)
		p.bars.Wait()
	}
}

// visited is a store that tells how many entries of it were visited.
type visited struct {
	deadletter.Store
	tell func(visited int)
}

// Visit visits the store.
func (v visited) Visit(ctx context.Context, visit func(deadletter.Page) error) error {
	n := 0
	return v.Store.Visit(ctx, func(page deadletter.Page) error {
		err := visit(page)
		n += len(page.Entries())
		v.tell(n)
		return err
	})
}
