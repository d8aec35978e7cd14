package cli

import (
	"fmt"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes/builtin"
)

// registry holds the program's Go handlers and the config's.
func (p *program) registry(cfg *config.Config) (*core.Registry, error) {
	registry := core.NewRegistry()
	if p.opts.Registry != nil {
		registry = p.opts.Registry.Clone()
	}
	for _, h := range cfg.Handlers {
		if err := registry.Handle(h.Pattern, p.handler(cfg, h)); err != nil {
			return nil, &exitError{ExitConfig, fmt.Errorf("%s: handlers: %w", cfg.Path, err)}
		}
	}
	return registry, nil
}

// handler makes one of the config's handlers.
func (p *program) handler(cfg *config.Config, h config.Handler) core.Handler {
	switch {
	case h.HTTP != nil:
		return builtin.HTTP(builtin.HTTPConfig{URL: h.HTTP.URL, Timeout: h.HTTP.Timeout, Connections: slots(cfg)})
	case h.Exec != nil:
		return p.commands.Exec(h.Exec.Command...)
	}
	return builtin.Log(p.logger)
}

// slots is how many jobs can run at once when every process is hosted.
func slots(cfg *config.Config) int {
	n := 0
	for _, process := range cfg.Processes {
		n += max(process.Replicas, 1) * process.Concurrency
	}
	return n
}
