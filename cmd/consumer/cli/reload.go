package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes"
)

// setup is what a config makes of the picked processes.
func (h *host) setup(cfg *config.Config, picked []*config.Process) (processes.Setup, error) {
	registry, err := h.program.registry(cfg)
	if err != nil {
		return processes.Setup{}, err
	}
	setup := processes.Setup{Endpoints: h.brokers.endpoints(cfg), Registry: registry, Child: h.child(cfg)}
	for _, process := range picked {
		spec := process.Spec
		spec.Options = driverOptions(process)
		if spec.Revision, err = revision(cfg, spec, registry); err != nil {
			return processes.Setup{}, err
		}
		setup.Specs = append(setup.Specs, spec)
	}
	return setup, nil
}

// revision changes with every handler of the config that the process can run. It is
// a hash, since handlers may hold secrets.
func revision(cfg *config.Config, spec processes.Spec, registry *core.Registry) (string, error) {
	view, err := registry.View(spec.Types)
	if err != nil {
		return "", &exitError{ExitConfig, fmt.Errorf("process %s: %w", spec.Name, err)}
	}
	var handlers []config.Handler
	for _, pattern := range view.Types() {
		at := slices.IndexFunc(cfg.Handlers, func(h config.Handler) bool { return h.Pattern == pattern })
		if at >= 0 {
			handlers = append(handlers, cfg.Handlers[at])
		} else {
			handlers = append(handlers, config.Handler{Pattern: pattern}) // in Go, which does not change
		}
	}
	text, err := json.Marshal(handlers)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// reloadOnSignal reads the config again at every SIGHUP until ctx ends.
func (h *host) reloadOnSignal(ctx context.Context, manager *processes.Manager) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.program.reload:
			if err := h.reload(manager); err != nil && ctx.Err() == nil {
				h.refuse(err)
			}
		}
	}
}

// reload goes over to what the config says now. With a fault in it nothing changes.
func (h *host) reload(manager *processes.Manager) error {
	before := h.config.Load()
	cfg, err := h.program.loadConfig()
	if err != nil {
		return err
	}
	picked, err := h.program.pickHosted(cfg, h.flags)
	if err != nil {
		return err
	}
	setup, err := h.setup(cfg, picked)
	if err != nil {
		return err
	}
	h.config.Store(cfg) // the processes that this starts log as it says
	changes, err := manager.Reload(setup)
	if err != nil {
		h.config.Store(before)
		return err
	}
	for _, name := range changes.Started {
		h.watchQueue(manager, name)
	}
	for _, name := range changes.Stopped {
		h.metrics.UnwatchQueue(name)
	}
	logger := h.program.logger
	if !reflect.DeepEqual(before.Admin, cfg.Admin) {
		cfg.Admin = before.Admin
		logger.Warn("config.needs_restart", "key", "admin", "fix", "restart the host to apply the changed admin address or token")
	}
	logger.Info("config.reloaded", "config", cfg.Path,
		"restarted", list(changes.Restarted), "started", list(changes.Started), "stopped", list(changes.Stopped))
	return nil
}

// refuse logs every fault of a config that was not taken.
func (h *host) refuse(err error) {
	logger := h.program.logger
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, fault := range faults {
			logger.Error("config.fault", "fault", masked(fault))
		}
	} else {
		logger.Error("config.fault", "fault", masked(err))
	}
	logger.Error("config.refused", "config", h.config.Load().Path, "fix", "mend the faults and send SIGHUP again; the old config stays in force")
}

// list is words as JSON has them, never null.
func list(words []string) []string { return append([]string{}, words...) }
