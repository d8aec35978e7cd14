package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goconsumer/consumer/cmd/consumer/config"
)

// lookupEnv reads the environment that the program was given.
func (p *program) lookupEnv(key string) (string, bool) {
	for _, kv := range slices.Backward(p.process.Env) {
		if k, v, ok := strings.Cut(kv, "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}

// loadConfig reads the config file. Its faults are an exit code of their own.
func (p *program) loadConfig() (*config.Config, error) {
	return p.loadConfigWith(config.Options{})
}

func (p *program) loadConfigWith(options config.Options) (*config.Config, error) {
	options.LookupEnv = p.lookupEnv
	cfg, err := config.Load(config.FindPath(p.configPath, p.lookupEnv), options)
	if err != nil {
		return nil, &exitError{ExitConfig, err}
	}
	return cfg, nil
}

// pick returns the named processes (all enabled ones when names is nil). What
// they would use and this version cannot do is an error; elsewhere in the file it
// is a warning in the log.
func (p *program) pick(cfg *config.Config, names []string) ([]*config.Process, error) {
	var picked []*config.Process
	for _, name := range names {
		process := cfg.Process(name)
		if process == nil {
			return nil, usageErrorf("no process is named %q: %s", name, knownProcesses(cfg))
		}
		if !slices.Contains(picked, process) {
			picked = append(picked, process)
		}
	}
	if names == nil {
		for _, process := range cfg.Processes {
			if process.Enabled {
				picked = append(picked, process)
			}
		}
	}
	faults, warnings := cfg.Select(names)
	for _, w := range warnings {
		p.logger.Warn("config.not_built", "fault", w.Error())
	}
	if len(faults) > 0 {
		return nil, &exitError{ExitConfig, faults}
	}
	return picked, nil
}

// pickOne is pick for verbs that work on the one process of --process.
func (p *program) pickOne(cfg *config.Config, name string) (*config.Process, error) {
	if name == "" {
		return nil, usageErrorf("--process is missing: %s", knownProcesses(cfg))
	}
	picked, err := p.pick(cfg, []string{name})
	if err != nil {
		return nil, err
	}
	return picked[0], nil
}

func knownProcesses(cfg *config.Config) string {
	if len(cfg.Processes) == 0 {
		return fmt.Sprintf("%s defines none", cfg.Path)
	}
	var names []string
	for _, process := range cfg.Processes {
		names = append(names, process.Name)
	}
	return "the processes are " + strings.Join(names, ", ")
}

// isFaults says whether err is a faulty config, which prints a line a fault.
func isFaults(err error) bool {
	_, ok := errors.AsType[config.Faults](err)
	return ok
}
