package cli

import (
	"bufio"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/deadletter"
)

type replayFlags struct {
	dlqFilter
	dryRun bool
	rate   float64
	to     string
	stdout bool
}

func (p *program) dlqReplayCommand() *cobra.Command {
	var flags replayFlags
	cmd := &cobra.Command{
		Use:   "replay --process=NAME",
		Short: "publish dead jobs again, oldest first; each leaves the dead letters when it is stored elsewhere",
		Args:  noArgs,
	}
	flags.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.dryRun, "dry-run", false, "only count")
	f.Float64Var(&flags.rate, "rate", 0, "at most this many jobs a second (0 = no limit)")
	f.StringVar(&flags.to, "to", "", "the process that gets the jobs (default: the one they come from)")
	f.BoolVar(&flags.stdout, "stdout", false, "print the jobs as a replay would send them and leave the dead letters where they are")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case flags.rate < 0:
			return usageErrorf("--rate=%g is negative", flags.rate)
		case flags.stdout && (flags.dryRun || flags.to != "" || flags.rate > 0):
			return usageErrorf("--stdout publishes nothing, so --dry-run, --rate and --to do not go with it")
		}
		d, err := p.openDLQ(cmd.Context(), &flags.dlqFilter)
		if err != nil {
			return err
		}
		defer d.close()
		if flags.stdout {
			return d.print(cmd)
		}
		return d.replay(cmd, flags)
	}
	return cmd
}

func (d *dlq) replay(cmd *cobra.Command, flags replayFlags) error {
	ctx := cmd.Context()
	target := d.process
	if flags.to != "" {
		var err error
		if target, err = d.brokers.program.pickOne(d.config, flags.to); err != nil {
			return err
		}
	}
	port, closePort, err := d.brokers.port(ctx, d.config, target)
	if err != nil {
		return brokerError(err)
	}
	defer closePort()
	bar := d.progress(cmd, "replayed")
	report, err := deadletter.Replay(ctx, d.store, port, d.filter, deadletter.ReplayOptions{
		DryRun: flags.dryRun, Rate: flags.rate, Format: target.Format,
		Progress: func(r deadletter.Report) { bar.at(r.Visited, r.Replayed) },
	})
	bar.end()
	outcome := d.conclude(report, err)
	if outcome == nil || report.Replayed > 0 {
		word := "replayed"
		if flags.dryRun {
			word = "would be replayed"
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s to %s\n", counted(report.Replayed, "job", "jobs"), word, target.Name)
	}
	return outcome
}

// conclude makes the verb's error of a replay's report.
func (d *dlq) conclude(report deadletter.Report, err error) error {
	switch {
	case err != nil && report.Doubled > 0:
		return brokerError(fmt.Errorf("the replay was cut short, up to %s may run twice; replay again for the rest: %w", counted(report.Doubled, "job", "jobs"), err))
	case err != nil:
		return brokerError(fmt.Errorf("the replay was cut short, replay again for the rest: %w", err))
	case report.Unreadable > 0:
		return fmt.Errorf("%s skipped and left, they are no jobs: see consumer dlq ls --process=%s", counted(report.Unreadable, "entry was", "entries were"), d.process.Name)
	case d.filter.ID != "" && report.Replayed == 0:
		return d.unknownID(d.filter.ID)
	}
	return nil
}

// print writes the jobs as NDJSON, for `publish --file`.
func (d *dlq) print(cmd *cobra.Command) error {
	out := bufio.NewWriterSize(cmd.OutOrStdout(), exportBuffer)
	var report deadletter.Report
	now := time.Now()
	all := d.filter
	all.Limit = 0 // which counts readable ones only, as in a replay
	err := deadletter.Select(cmd.Context(), d.store, all, func(e *deadletter.Entry) error {
		if e.Err != nil {
			report.Unreadable++
			return nil
		}
		job, err := deadletter.Revive(e.Record.Job, now)
		if err != nil {
			return err
		}
		if _, err = fmt.Fprintf(out, "%s\n", deadletter.OneLine(job.As(d.process.Format).Append(nil))); err != nil {
			return err
		}
		if report.Replayed++; report.Replayed == d.filter.Limit {
			return deadletter.ErrEnough
		}
		return nil
	})
	if flushErr := out.Flush(); err == nil {
		err = flushErr
	}
	return d.conclude(report, err)
}
