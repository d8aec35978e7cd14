package cli

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/telemetry"
	"github.com/goconsumer/consumer/processes"
	"github.com/goconsumer/consumer/processes/admin"
)

// host is one run of processes with their admin address.
type host struct {
	program *program
	brokers *brokers
	flags   runFlags
	metrics *telemetry.Metrics
	config  atomic.Pointer[config.Config] // in force
}

func (h *host) run(ctx context.Context, cfg *config.Config, picked []*config.Process) error {
	logger := h.program.logger
	setup, err := h.setup(cfg, picked)
	if err != nil {
		return err
	}
	listeners := []core.Listener{h.metrics.Listener(), telemetry.LogListener(logger, h.logsSuccess)}
	h.brokers.listeners = listeners
	manager, err := processes.New(setup.Specs, processes.Options{
		Endpoints:   setup.Endpoints,
		Drivers:     h.brokers.drivers(),
		DeadSink:    h.brokers.deadSink,
		Registry:    setup.Registry,
		Listeners:   listeners,
		Hooks:       h.program.opts.Hooks,
		GiveUpAfter: h.flags.giveUpAfter,
		Logger:      logger,
		Child:       setup.Child,
		Relayed:     []core.Listener{h.metrics.Listener()},
	})
	if err != nil {
		return err
	}
	h.metrics.WatchProcesses(func() []telemetry.ProcessSample { return samples(manager.Status()) })
	for _, spec := range setup.Specs {
		h.watchQueue(manager, spec.Name)
	}

	side, endSide := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	defer wg.Wait()
	defer endSide()
	if err := h.serveAdmin(side, &wg, cfg, manager); err != nil {
		return err
	}
	wg.Go(func() { h.abortOnHalt(side, manager) })
	wg.Go(func() { h.reloadOnSignal(side, manager) })

	logger.Info("host.start", "processes", strings.Join(names(setup.Specs), ","), "config", cfg.Path)
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

// abortOnHalt makes the stop hard at the second signal.
func (h *host) abortOnHalt(ctx context.Context, manager *processes.Manager) {
	select {
	case <-ctx.Done():
	case <-h.program.halt.Done():
		manager.Abort()
	}
}

// serveAdmin answers on the admin address until ctx ends; a config without one
// serves nothing.
func (h *host) serveAdmin(ctx context.Context, wg *sync.WaitGroup, cfg *config.Config, manager *processes.Manager) error {
	if cfg.Admin == nil {
		return nil
	}
	logger := h.program.logger
	server, err := admin.Listen(admin.Config{
		Listen: cfg.Admin.Listen, Token: cfg.Admin.Token, Metrics: h.metrics.Handler(), Logger: logger,
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

// watchQueue gives the metrics a view of a hosted queue.
func (h *host) watchQueue(manager *processes.Manager, name string) {
	h.metrics.WatchQueue(name, func(ctx context.Context) (core.QueueStats, error) {
		return manager.Inspect(ctx, name)
	})
}

func (h *host) logsSuccess(name string) bool {
	process := h.config.Load().Process(name)
	return process != nil && process.LogSuccess
}

func names(specs []processes.Spec) []string {
	var names []string
	for _, spec := range specs {
		names = append(names, spec.Name)
	}
	return names
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
