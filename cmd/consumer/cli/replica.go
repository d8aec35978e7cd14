package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/telemetry"
	"github.com/goconsumer/consumer/processes"
	"github.com/goconsumer/consumer/transport/redis/embedded"
)

// childMark is in the environment of the children that run starts.
const childMark = "CONSUMER_REPLICA"

// Descriptors of a child beside the standard ones, see processes.Child.
const (
	reportDescriptor = 3
	logDescriptor    = 4
)

// replicaSetup is what a child OS process needs to host its replica: resolved
// values, so that neither the file nor its environment is read again.
type replicaSetup struct {
	Replica   int
	Process   *config.Process
	Handlers  []config.Handler
	Endpoints []processes.Endpoint
}

// child starts this very program as a replica of one of cfg's processes.
func (h *host) child(cfg *config.Config) processes.ChildFunc {
	return func(spec processes.Spec, replica int) (processes.Child, error) {
		path, err := ownFile()
		if err != nil {
			return processes.Child{}, err
		}
		process := *cfg.Process(spec.Name)
		endpoints, err := h.brokers.outside(cfg, &process)
		if err != nil {
			return processes.Child{}, err
		}
		setup, err := json.Marshal(replicaSetup{replica, &process, cfg.Handlers, endpoints})
		if err != nil {
			return processes.Child{}, fmt.Errorf("encode the setup of a replica: %w", err)
		}
		return processes.Child{
			Path: path,
			Args: []string{
				"replica", "--process=" + spec.Name, "--replica=" + strconv.Itoa(replica),
				"--log-format=" + h.program.logFormat, "--log-level=" + h.program.logLevel,
			},
			Env:   append(slices.Clone(h.program.process.Env), childMark+"="+strconv.Itoa(replica)),
			Setup: setup,
			Log:   h.program.logWriter,
		}, nil
	}
}

// ownFile is the file of this very program, also when another one was put in its
// place since it started: parent and child speak the language of one version.
func ownFile() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this program's file: %w", err)
	}
	const self = "/proc/self/exe"
	own, err := os.Stat(self)
	if err != nil {
		return path, nil // not Linux
	}
	if now, err := os.Stat(path); err != nil || !os.SameFile(own, now) {
		return self, nil
	}
	return path, nil
}

// replicaCommand is what run starts for isolation: os.
func (p *program) replicaCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "replica", Short: "one replica of a process with isolation: os; run starts it", Hidden: true, Args: noArgs}
	// Its setup has both; they are there for people who read the process list.
	cmd.Flags().String("process", "", "the process")
	cmd.Flags().Int("replica", 0, "the replica's number")
	cmd.PersistentPreRunE = func(*cobra.Command, []string) error {
		if mark, _ := p.lookupEnv(childMark); mark == "" {
			return usageErrorf("replica is started by run for processes with isolation: os; use run")
		}
		_ = os.Unsetenv(childMark) // commands of handlers are no replicas
		keepToOurselves(reportDescriptor, logDescriptor)
		p.logWriter = os.NewFile(logDescriptor, "log")
		return p.openLog()
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.serveReplica(cmd.Context())
	}
	return cmd
}

func (p *program) serveReplica(ctx context.Context) error {
	reports := os.NewFile(reportDescriptor, "reports")
	defer func() { _ = reports.Close() }() // the parent reads to its end
	link, err := processes.Connect(p.process.Stdin, reports)
	if err != nil {
		return err
	}
	manager, err := p.replicaManager(link)
	if err != nil {
		link.Refuse(err)
		return err
	}
	side, end := context.WithCancel(p.halt)
	defer end()
	go func() {
		<-side.Done()
		if p.halt.Err() != nil {
			manager.Abort()
		}
	}()
	defer p.commands.Kill()
	return link.Serve(ctx, manager)
}

// replicaManager hosts the replica that the parent's setup describes.
func (p *program) replicaManager(link *processes.Link) (*processes.Manager, error) {
	var setup replicaSetup
	if err := json.Unmarshal(link.Setup(), &setup); err != nil {
		return nil, fmt.Errorf("read the setup: %w", err)
	}
	spec := setup.Process.Spec
	if err := processes.LimitMemory(spec.MemoryLimit); err != nil {
		return nil, err
	}
	cfg := &config.Config{Transports: setup.Endpoints, Processes: []*config.Process{setup.Process}, Handlers: setup.Handlers}
	registry, err := p.registry(cfg)
	if err != nil {
		return nil, err
	}
	spec.Options = driverOptions(setup.Process)
	// What remains is the parent's: how many there are, when one is replaced.
	spec.Isolation, spec.Replicas, spec.MemoryLimit, spec.Recycle = processes.IsolationGoroutine, 1, 0, processes.Recycle{}
	spec.Restart.Limit = 1
	brokers := p.newBrokers(false)
	log := telemetry.LogListener(p.logger.With("replica", setup.Replica), func(string) bool { return spec.LogSuccess })
	brokers.listeners = []core.Listener{link.Listener(), log}
	return processes.New([]processes.Spec{spec}, processes.Options{
		Endpoints:    setup.Endpoints,
		Drivers:      brokers.drivers(),
		DeadSink:     brokers.deadSink,
		Registry:     registry,
		Listeners:    brokers.listeners,
		Hooks:        p.opts.Hooks,
		Logger:       p.logger,
		FirstReplica: setup.Replica,
	})
}

// outside are the endpoints that a child of the process needs, as they can be
// reached from there: an embedded broker has an address of its own, and the process's
// waits there must be short.
func (b *brokers) outside(cfg *config.Config, process *config.Process) ([]processes.Endpoint, error) {
	var used []processes.Endpoint
	for _, e := range b.endpoints(cfg) {
		if e.Name != process.Transport && e.Name != process.DeadLetter.Transport {
			continue
		}
		if strings.HasPrefix(e.URL, "embedded:") {
			address, err := b.embeddedAddress(e)
			if err != nil {
				return nil, err
			}
			e.URL = address
			process.Redis.Block = embedded.Block
		}
		used = append(used, e)
	}
	return used, nil
}
