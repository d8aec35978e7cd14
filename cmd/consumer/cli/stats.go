package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
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
	var watch bool
	var interval time.Duration
	cmd := &cobra.Command{Use: "stats", Short: "how many jobs each process has waiting, delayed, in flight and dead", Args: noArgs}
	cmd.Flags().StringSliceVar(&names, "process", nil, "only these processes")
	cmd.Flags().BoolVar(&watch, "watch", false, "look again and again: a live table on a terminal (q quits), else lines")
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "with --watch: the time between two looks")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case interval < minInterval:
			return usageErrorf("--interval=%s is too short: at least %s", interval, minInterval)
		case !watch && cmd.Flags().Changed("interval"):
			return usageErrorf("--interval is for stats --watch")
		}
		cfg, err := p.loadConfig()
		if err != nil {
			return err
		}
		picked, err := p.pick(cfg, names)
		if err != nil {
			return err
		}
		o := p.newObserver(cfg, picked)
		defer o.close()
		if watch {
			return p.watchStats(cmd, o, *output, interval)
		}
		all := o.lookTwice(cmd.Context())
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
	return cmd
}

func printStats(w io.Writer, all []processStats) {
	t := newTable(w, "process", "transport", "queue", "ready", "delayed", "in_flight", "dead", "oldest_seconds", "lag", "rate", "paused")
	for _, s := range all {
		t.AppendRow([]any{
			s.Process, s.Transport, s.Queue, dash(s.Ready), dash(s.Delayed), dash(s.InFlight), dash(s.Dead),
			tenths(s.OldestSeconds), dash(s.Lag), tenths(s.Rate), dash(s.Paused),
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
