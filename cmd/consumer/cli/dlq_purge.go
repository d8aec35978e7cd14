package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/deadletter"
)

type purgeFlags struct {
	dlqFilter
	dryRun bool
	rate   float64
	yes    bool
}

func (p *program) dlqPurgeCommand() *cobra.Command {
	var flags purgeFlags
	cmd := &cobra.Command{
		Use:   "purge --process=NAME",
		Short: "remove dead letters for good, oldest first; the others stay as they are",
		Args:  noArgs,
	}
	flags.register(cmd)
	f := cmd.Flags()
	f.BoolVar(&flags.dryRun, "dry-run", false, "only count")
	f.Float64Var(&flags.rate, "rate", 0, "at most this many a second (0 = no limit)")
	f.BoolVar(&flags.yes, "yes", false, "without a filter: remove all of them, do not ask")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		filter, err := flags.filter()
		if err != nil {
			return err
		}
		ask := filter == deadletter.Filter{} && !flags.yes && !flags.dryRun
		switch {
		case flags.rate < 0:
			return usageErrorf("--rate=%g is negative", flags.rate)
		case ask && !isTerminal(p.process.Stdin):
			return usageErrorf("without a filter purge removes every dead letter of the process: add --yes if that is meant")
		}
		d, err := p.openDLQ(cmd.Context(), &flags.dlqFilter)
		if err != nil {
			return err
		}
		defer d.close()
		if ask {
			if err := d.askPurge(cmd); err != nil {
				return err
			}
		}
		return d.purge(cmd, flags)
	}
	return cmd
}

// errNotPurged is the answer no.
var errNotPurged = errors.New("nothing was removed")

// askPurge asks the terminal whether all may go.
func (d *dlq) askPurge(cmd *cobra.Command) error {
	total, err := d.store.Count(cmd.Context())
	if err != nil {
		return brokerError(err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Remove %s of process %s for good? [y/N] ", counted(int(total), "dead letter", "dead letters"), d.process.Name)
	answer, err := readAnswer(cmd.Context(), cmd.InOrStdin())
	switch {
	case err != nil:
		fmt.Fprintln(cmd.ErrOrStderr())
		return err
	case slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))):
		return nil
	}
	return errNotPurged
}

// readAnswer reads a line, until ctx ends.
func readAnswer(ctx context.Context, r io.Reader) (string, error) {
	answers := make(chan string, 1)
	go func() { // it stays behind only when the program is about to end
		answer, _ := bufio.NewReader(r).ReadString('\n') // what came before an end is no yes
		answers <- answer
	}()
	select {
	case answer := <-answers:
		return answer, nil
	case <-ctx.Done():
		return "", fmt.Errorf("%w: %w", errNotPurged, ctx.Err())
	}
}

func (d *dlq) purge(cmd *cobra.Command, flags purgeFlags) error {
	bar := d.progress(cmd, "purged")
	purged, err := deadletter.Purge(cmd.Context(), d.store, d.filter, deadletter.PurgeOptions{
		DryRun: flags.dryRun, Rate: flags.rate, Progress: bar.at,
	})
	bar.end()
	if err == nil && purged == 0 && d.filter.ID != "" {
		return d.unknownID(d.filter.ID)
	}
	if err == nil || purged > 0 {
		word := "purged"
		if flags.dryRun {
			word = "would be purged"
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s of %s %s\n", counted(purged, "dead letter", "dead letters"), d.process.Name, word)
	}
	if err != nil {
		return brokerError(fmt.Errorf("the purge was cut short, purge again for the rest: %w", err))
	}
	return nil
}
