package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes"
)

// brokers opens drivers for one verb. Embedded brokers are started when first
// asked for and live until close.
type brokers struct {
	program  *program
	embedded bool // every endpoint is replaced by an embedded one
	servers  embeddedServers

	listeners []core.Listener // hear of dead letters that a sink drops
}

func (p *program) newBrokers(embedded bool) *brokers {
	return &brokers{program: p, embedded: embedded}
}

func (b *brokers) close() { b.servers.close() }

// endpoints are the config's transports, or embedded ones in their place.
func (b *brokers) endpoints(cfg *config.Config) []processes.Endpoint {
	endpoints := slices.Clone(cfg.Transports)
	if b.embedded {
		for i := range endpoints {
			endpoints[i].URL = embeddedURL
		}
	}
	return endpoints
}

// open makes a driver for the process's transport; the caller closes it. It does
// not wait for the broker.
func (b *brokers) open(cfg *config.Config, process *config.Process) (core.Driver, error) {
	return b.openTransport(cfg, process.Transport)
}

func (b *brokers) openTransport(cfg *config.Config, name string) (core.Driver, error) {
	for _, endpoint := range b.endpoints(cfg) {
		if endpoint.Name == name {
			return b.openEndpoint(endpoint)
		}
	}
	return nil, &core.SetupError{Sentence: fmt.Sprintf("transport %s is not defined in %s", name, cfg.Path)}
}

// checkShared refuses an embedded transport to a verb that works on the jobs of
// another program: it would see a new broker, and what it stores there would be
// gone when it ends.
func (b *brokers) checkShared(cfg *config.Config, transport string) error {
	if !b.embedded && isEmbedded(cfg, transport) {
		return usageErrorf("transport %s is embedded, so only the program that runs it has its jobs: "+
			"use a config with the URL that consumer run logs as embedded.listening", transport)
	}
	return nil
}

func isEmbedded(cfg *config.Config, transport string) bool {
	return slices.ContainsFunc(cfg.Transports, func(e processes.Endpoint) bool {
		return e.Name == transport && strings.HasPrefix(e.URL, "embedded://")
	})
}

// port opens a port to the process's queue, and the function that closes it.
func (b *brokers) port(ctx context.Context, cfg *config.Config, process *config.Process) (core.PublishPort, func(), error) {
	if err := b.checkShared(cfg, process.Transport); err != nil {
		return nil, nil, err
	}
	driver, err := b.open(cfg, process)
	if err != nil {
		return nil, nil, err
	}
	closeDriver := func() { _ = driver.Close(context.WithoutCancel(ctx)) }
	port, err := driver.OpenPublisher(ctx, binding(process, b.program.logger))
	if err != nil {
		closeDriver()
		return nil, nil, err
	}
	return port, func() {
		_ = port.Close(context.WithoutCancel(ctx))
		closeDriver()
	}, nil
}

func (b *brokers) openEndpoint(endpoint processes.Endpoint) (core.Driver, error) {
	scheme, _, _ := strings.Cut(endpoint.URL, "://")
	open, ok := b.drivers()[scheme]
	if !ok {
		return nil, &core.SetupError{Sentence: fmt.Sprintf("transport %s: no driver has the scheme %s in this version", endpoint.Name, scheme)}
	}
	return open(endpoint)
}

// masked is an error's text with the passwords of URLs hidden.
func masked(err error) string { return processes.MaskURL(err.Error()) }

// brokerError gives err the exit code of an unreachable broker when that is what
// it says.
func brokerError(err error) error {
	if err == nil || !isUnreachable(err) {
		return err
	}
	return &exitError{ExitUnreachable, err}
}

func isUnreachable(err error) bool {
	if _, ok := errors.AsType[*core.SetupError](err); ok {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded)
}
