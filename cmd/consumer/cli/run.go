package cli

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/telemetry"
	"github.com/goconsumer/consumer/processes"
	"github.com/goconsumer/consumer/processes/admin"
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
	registry, err := p.registry(cfg)
	if err != nil {
		return err
	}
	brokers := p.newBrokers(flags.embedded)
	defer brokers.close()

	host := &host{program: p, brokers: brokers, config: cfg, picked: picked, metrics: telemetry.NewMetrics()}
	return host.run(ctx, registry, flags.giveUpAfter)
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

// host is one run of processes with their admin address.
type host struct {
	program *program
	brokers *brokers
	config  *config.Config
	picked  []*config.Process
	metrics *telemetry.Metrics
}

func (h *host) run(ctx context.Context, registry *core.Registry, giveUpAfter time.Duration) error {
	logger := h.program.logger
	listeners := []core.Listener{h.metrics.Listener(), telemetry.LogListener(logger, h.logsSuccess)}
	h.brokers.listeners = listeners
	manager, err := processes.New(h.specs(), processes.Options{
		Endpoints:   h.brokers.endpoints(h.config),
		Drivers:     h.brokers.drivers(),
		DeadSink:    h.brokers.deadSink,
		Registry:    registry,
		Listeners:   listeners,
		GiveUpAfter: giveUpAfter,
		Logger:      logger,
	})
	if err != nil {
		return err
	}
	h.metrics.WatchProcesses(func() []telemetry.ProcessSample { return samples(manager.Status()) })
	h.watchQueues(manager)

	side, endSide := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer endSide()
	if err := h.serveAdmin(side, &wg, manager); err != nil {
		return err
	}
	wg.Go(func() { h.answerSignals(side, manager) })

	logger.Info("host.start", "processes", strings.Join(h.names(), ","), "config", h.config.Path)
	defer h.program.commands.Kill() // a hard stop waits for none of them
	err = manager.Run(ctx)
	if h.program.halt.Err() != nil {
		return err // the second signal decides the exit code
	}
	logger.Info("host.stop", "exit", processes.ExitCode(err))
	if err != nil {
		return &exitError{processes.ExitCode(err), err}
	}
	return nil
}

// answerSignals makes the stop hard at the second signal.
func (h *host) answerSignals(ctx context.Context, manager *processes.Manager) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.program.halt.Done():
			manager.Abort()
			return
		case <-h.program.reload:
			h.program.logger.Warn("config.reload_not_built", "fix", "restart the host to apply a changed config")
		}
	}
}

// serveAdmin answers on the admin address until ctx ends; a config without one
// serves nothing.
func (h *host) serveAdmin(ctx context.Context, wg *sync.WaitGroup, manager *processes.Manager) error {
	if h.config.Admin == nil {
		return nil
	}
	logger := h.program.logger
	server, err := admin.Listen(admin.Config{
		Listen: h.config.Admin.Listen, Token: h.config.Admin.Token, Metrics: h.metrics.Handler(), Logger: logger,
	}, manager)
	if err != nil {
		return err
	}
	logger.Info("admin.listening", "addr", server.Addr())
	wg.Go(func() {
		if err := server.Serve(ctx); err != nil {
			logger.Error("admin.failed", "error", err)
		}
	})
	return nil
}

// watchQueues gives the metrics a view of every hosted queue.
func (h *host) watchQueues(manager *processes.Manager) {
	for _, name := range h.names() {
		h.metrics.WatchQueue(name, func(ctx context.Context) (core.QueueStats, error) {
			return manager.Inspect(ctx, name)
		})
	}
}

func (h *host) specs() []processes.Spec {
	var specs []processes.Spec
	for _, process := range h.picked {
		spec := process.Spec
		spec.Options = driverOptions(process)
		specs = append(specs, spec)
	}
	return specs
}

func (h *host) names() []string {
	var names []string
	for _, process := range h.picked {
		names = append(names, process.Name)
	}
	return names
}

func (h *host) logsSuccess(name string) bool {
	process := h.config.Process(name)
	return process != nil && process.LogSuccess
}

func samples(status []processes.ProcessStatus) []telemetry.ProcessSample {
	var out []telemetry.ProcessSample
	for _, s := range status {
		out = append(out, telemetry.ProcessSample{
			Process: s.Name, Up: s.Ready, Inflight: s.Running, Stuck: s.Stuck, Restarts: s.Restarts,
		})
	}
	return out
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
