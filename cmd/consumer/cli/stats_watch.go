package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// minInterval is the shortest time between two looks: each costs every broker a
// few commands.
const minInterval = 100 * time.Millisecond

// watchStats looks until somebody ends it, which is no failure.
func (p *program) watchStats(cmd *cobra.Command, o *observer, output outputFlag, interval time.Duration) error {
	ctx, quit := context.WithCancel(cmd.Context())
	defer quit()
	looks := make(chan []processStats)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer quit() // before the wait
	wg.Go(func() { o.watch(ctx, interval, looks) })

	if output == outputTable && isTerminal(p.process.Stdout) {
		return p.showStats(ctx, quit, interval, looks)
	}
	return p.printLooks(ctx, cmd, output, looks)
}

// watch sends what it sees, once an interval, until ctx ends.
func (o *observer) watch(ctx context.Context, interval time.Duration, looks chan<- []processStats) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		all := o.look(ctx)
		select {
		case looks <- all:
		case <-ctx.Done():
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// printLooks prints a line a process, or an array of all a line, each time. What
// a broker answers in place of numbers goes to stderr when it changes.
func (p *program) printLooks(ctx context.Context, cmd *cobra.Command, output outputFlag, looks <-chan []processStats) error {
	var said string
	for {
		var all []processStats
		select {
		case all = <-looks:
		case <-ctx.Done():
			return nil
		}
		var err error
		if output == outputJSON {
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(all)
		} else {
			err = printLines(cmd.OutOrStdout(), time.Now(), all)
		}
		if err != nil {
			return err
		}
		var unanswered bytes.Buffer
		_ = p.reportUnanswered(&unanswered, all) // it goes on
		if text := unanswered.String(); text != said {
			said = text
			fmt.Fprint(cmd.ErrOrStderr(), text)
		}
	}
}

func printLines(w io.Writer, at time.Time, all []processStats) error {
	for _, s := range all {
		_, err := fmt.Fprintf(w, "%s process=%s transport=%s queue=%s ready=%v delayed=%v in_flight=%v dead=%v oldest_seconds=%v lag=%v rate=%v paused=%v\n",
			at.UTC().Format(time.RFC3339), s.Process, s.Transport, s.Queue, dash(s.Ready), dash(s.Delayed), dash(s.InFlight), dash(s.Dead),
			tenths(s.OldestSeconds), dash(s.Lag), tenths(s.Rate), dash(s.Paused))
		if err != nil {
			return err
		}
	}
	return nil
}
