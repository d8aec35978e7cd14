package cli

import (
	"io"
	"log/slog"
	"os"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/processes"
)

// OpenInspector reads a config file (path "" finds it as every verb does) and makes an
// Inspector of all its processes whose transport this version has. Close it after
// use.
func OpenInspector(path string) (*processes.Inspector, error) {
	cfg, err := config.Load(config.FindPath(path, nil), config.Options{})
	if err != nil {
		return nil, err
	}
	p := &program{process: Process{Stderr: io.Discard, Env: os.Environ()}, logger: slog.New(slog.DiscardHandler)}
	brokers := p.newBrokers(false)
	var specs []processes.Spec
	for _, process := range cfg.Processes {
		if faults, _ := cfg.Select([]string{process.Name}); len(faults) > 0 {
			continue
		}
		spec := process.Spec
		spec.Options = driverOptions(process)
		specs = append(specs, spec)
	}
	return processes.NewInspector(specs, processes.Options{
		Endpoints: brokers.endpoints(cfg), Drivers: brokers.drivers(), DeadSink: brokers.deadSink, Logger: p.logger,
	})
}
