package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
	"github.com/goconsumer/consumer/processes"
)

// statsTimeout is how long a broker may take to answer.
const statsTimeout = 5 * time.Second

// processStats is one process of `stats`; null is what its broker does not tell.
type processStats struct {
	Process       string   `json:"process"`
	Transport     string   `json:"transport"`
	Queue         string   `json:"queue"`
	Ready         *int64   `json:"ready"`
	Delayed       *int64   `json:"delayed"`
	InFlight      *int64   `json:"in_flight"`
	Dead          *int64   `json:"dead"`
	OldestSeconds *float64 `json:"oldest_seconds"`
	Lag           *int64   `json:"lag"`
	Rate          *float64 `json:"rate"`
	Paused        *bool    `json:"paused"`

	err error
}

func (p *program) statsCommand() *cobra.Command {
	var names []string
	cmd := &cobra.Command{Use: "stats", Short: "how many jobs each process has waiting, delayed, in flight and dead", Args: noArgs}
	cmd.Flags().StringSliceVar(&names, "process", nil, "only these processes")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.loadConfig()
		if err != nil {
			return err
		}
		picked, err := p.pick(cfg, names)
		if err != nil {
			return err
		}
		all := p.collectStats(cmd.Context(), cfg, picked)
		if *output == outputJSON {
			err = writeJSON(cmd.OutOrStdout(), all)
		} else {
			printStats(cmd.OutOrStdout(), all)
		}
		if err != nil {
			return err
		}
		return p.reportUnanswered(cmd.ErrOrStderr(), all)
	}
	notBuiltFlag(cmd, "watch", "run consumer stats again, or scrape /metrics of the admin address")
	return cmd
}

// collectStats asks all brokers at once, so that one that is down holds up nobody.
func (p *program) collectStats(ctx context.Context, cfg *config.Config, picked []*config.Process) []processStats {
	brokers := p.newBrokers(false)
	defer brokers.close()
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	all := make([]processStats, len(picked))
	var wg sync.WaitGroup
	for i, process := range picked {
		wg.Go(func() {
			all[i] = processStats{Process: process.Name, Transport: process.Transport, Queue: process.Queue}
			stats, err := p.inspect(ctx, brokers, cfg, process)
			all[i].err = err
			all[i].Ready, all[i].Delayed, all[i].InFlight = stats.Ready, stats.Delayed, stats.InFlight
			all[i].Dead, all[i].OldestSeconds, all[i].Lag = stats.Dead, stats.OldestSeconds, stats.Lag
			all[i].Paused = stats.Paused
		})
	}
	wg.Wait()
	return all
}

func (p *program) inspect(ctx context.Context, brokers *brokers, cfg *config.Config, process *config.Process) (core.QueueStats, error) {
	if isEmbedded(cfg, process.Transport) { // in another program, if anywhere
		return core.QueueStats{}, nil
	}
	driver, err := brokers.open(cfg, process)
	if err != nil {
		return core.QueueStats{}, err
	}
	defer func() { _ = driver.Close(context.WithoutCancel(ctx)) }()
	inspector, ok := driver.(core.Inspector)
	if !ok {
		return core.QueueStats{}, nil // it tells nothing
	}
	stats, err := inspector.Inspect(ctx, binding(process, p.logger))
	switch {
	case err != nil:
		return core.QueueStats{}, err
	case process.DeadLetter.Driver == processes.DeadLogOnly:
		stats.Dead = nil
	case deadPlace(process) != process.Transport:
		stats.Dead = nil
		err = p.countDead(ctx, brokers, cfg, process, &stats)
	}
	return stats, err
}

// countDead counts dead letters that another transport keeps.
func (p *program) countDead(ctx context.Context, brokers *brokers, cfg *config.Config, process *config.Process, stats *core.QueueStats) error {
	driver, err := brokers.openTransport(cfg, deadPlace(process))
	if err != nil {
		return err
	}
	defer func() { _ = driver.Close(context.WithoutCancel(ctx)) }()
	opener, ok := driver.(deadletter.Opener)
	if !ok {
		return nil // it tells nothing
	}
	store, err := opener.OpenDeadLetters(ctx, binding(process, p.logger))
	if err != nil {
		return err
	}
	n, err := store.Count(ctx)
	if err == nil {
		stats.Dead = &n
	}
	return err
}

func printStats(w io.Writer, all []processStats) {
	t := newTable(w, "process", "transport", "queue", "ready", "delayed", "in_flight", "dead", "oldest_seconds", "lag", "rate", "paused")
	for _, s := range all {
		t.AppendRow([]any{
			s.Process, s.Transport, s.Queue, dash(s.Ready), dash(s.Delayed), dash(s.InFlight), dash(s.Dead),
			dash(s.OldestSeconds), dash(s.Lag), dash(s.Rate), dash(s.Paused),
		})
	}
	t.Render()
}

// reportUnanswered says which brokers did not answer and is the verb's error.
func (p *program) reportUnanswered(stderr io.Writer, all []processStats) error {
	var failed error
	for _, s := range all {
		if s.err != nil {
			failed = s.err
			fmt.Fprintf(stderr, "%s: process %s: %s\n", p.opts.Name, s.Process, masked(s.err))
		}
	}
	if failed == nil {
		return nil
	}
	return &exitError{exitCode(brokerError(failed)), errReported}
}
