package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/deadletter"
	"github.com/goconsumer/consumer/processes"
)

func (p *program) dlqCommand() *cobra.Command {
	return group(&cobra.Command{Use: "dlq", Short: "look at dead letters, replay, export and purge them"},
		p.dlqListCommand(),
		p.dlqShowCommand(),
		p.dlqReplayCommand(),
		p.dlqPurgeCommand(),
		p.dlqExportCommand(),
	)
}

// dlq is one dlq verb at work: a process's dead letters and the filter.
type dlq struct {
	config  *config.Config
	process *config.Process
	store   deadletter.Store
	filter  deadletter.Filter
	brokers *brokers
	close   func()
}

// openDLQ reads the flags, the config and opens the process's dead letters.
func (p *program) openDLQ(ctx context.Context, flags *dlqFilter) (*dlq, error) {
	filter, err := flags.filter()
	if err != nil {
		return nil, err
	}
	cfg, err := p.loadConfig()
	if err != nil {
		return nil, err
	}
	process, err := p.pickOne(cfg, flags.process)
	if err != nil {
		return nil, err
	}
	d := &dlq{config: cfg, process: process, filter: filter, brokers: p.newBrokers(false)}
	if err := d.open(ctx); err != nil {
		d.brokers.close()
		return nil, brokerError(err)
	}
	return d, nil
}

// open opens the store where the process's config puts its dead letters.
func (d *dlq) open(ctx context.Context) error {
	if d.process.DeadLetter.Driver == processes.DeadLogOnly {
		return fmt.Errorf("process %s keeps no dead letters (dead_letter.driver: log_only): look into its log", d.process.Name)
	}
	place := deadPlace(d.process)
	if err := d.brokers.checkShared(d.config, place); err != nil {
		return err
	}
	driver, err := d.brokers.openTransport(d.config, place)
	if err != nil {
		return err
	}
	d.close = func() {
		_ = driver.Close(context.WithoutCancel(ctx))
		d.brokers.close()
	}
	opener, ok := driver.(deadletter.Opener)
	if !ok {
		d.close()
		return fmt.Errorf("transport %s has no dead letters that can be read", place)
	}
	d.store, err = opener.OpenDeadLetters(ctx, binding(d.process, d.brokers.program.logger))
	if err != nil {
		d.close()
	}
	return err
}

// deadPlace is the transport that keeps a process's dead letters.
func deadPlace(process *config.Process) string {
	if place := process.DeadLetter; place.Driver == processes.DeadRedisList && place.Transport != "" {
		return place.Transport
	}
	return process.Transport
}

// unknownID is the error of a verb that was given an id which is not there.
func (d *dlq) unknownID(id string) error {
	return fmt.Errorf("no dead letter of process %s has the id %q: see consumer dlq ls --process=%s", d.process.Name, id, d.process.Name)
}
