package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/telemetry"
)

// runFlags are the flags of `run`.
type runFlags struct {
	processes   []string
	all         bool
	embedded    bool
	giveUpAfter time.Duration
}

func (p *program) runCommand() *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run --process=NAME[,NAME…] | --all",
		Short: "host processes until a signal; a second signal stops at once",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return p.runProcesses(cmd.Context(), flags) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&flags.processes, "process", nil, "names of the processes to host")
	f.BoolVar(&flags.all, "all", false, "host every enabled process")
	f.BoolVar(&flags.embedded, "embedded", false, "use embedded development brokers in place of every transport")
	f.DurationVar(&flags.giveUpAfter, "give-up-after", 0, "exit 69 when a broker has been away for so long (0 = never)")
	return cmd
}

func (p *program) runProcesses(ctx context.Context, flags runFlags) error {
	if flags.giveUpAfter < 0 {
		return usageErrorf("--give-up-after=%s is negative", flags.giveUpAfter)
	}
	cfg, err := p.loadConfigWith(config.Options{Embedded: flags.embedded})
	if err != nil {
		return err
	}
	picked, err := p.pickHosted(cfg, flags)
	if err != nil {
		return err
	}
	brokers := p.newBrokers(flags.embedded)
	defer brokers.close()
	host := &host{program: p, brokers: brokers, flags: flags, metrics: telemetry.NewMetrics()}
	host.config.Store(cfg)
	return host.run(ctx, cfg, picked)
}

// pickHosted is what --process or --all name; neither is a usage error with the
// names to choose from.
func (p *program) pickHosted(cfg *config.Config, flags runFlags) ([]*config.Process, error) {
	switch {
	case flags.all && len(flags.processes) > 0:
		return nil, usageErrorf("--all and --process exclude each other")
	case flags.all:
		picked, err := p.pick(cfg, nil)
		if err == nil && len(picked) == 0 {
			err = usageErrorf("no process is enabled in %s: %s", cfg.Path, knownProcesses(cfg))
		}
		return picked, err
	case len(flags.processes) == 0:
		return nil, usageErrorf("say --process=NAME or --all: %s", knownProcesses(cfg))
	}
	return p.pick(cfg, flags.processes)
}

// binding is what a publisher or inspector of the process's queue needs.
func binding(process *config.Process, logger *slog.Logger) core.Binding {
	return core.Binding{
		Process:     process.Name,
		Queue:       process.Queue,
		Concurrency: process.Concurrency,
		Priority:    process.Priority,
		Ordering:    process.Ordering,
		DeadLetters: process.DeadLetter.DeadLetterPolicy,
		Accept:      process.Accept,
		Options:     driverOptions(process),
		Logger:      logger,
	}
}
