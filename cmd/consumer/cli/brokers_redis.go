package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes"
	"github.com/goconsumer/consumer/transport/redis"
	"github.com/goconsumer/consumer/transport/redis/embedded"
)

// embeddedURL is the endpoint of an in-process Redis.
const embeddedURL = "embedded://redis"

// drivers are the drivers of this program by URL scheme.
func (b *brokers) drivers() map[string]processes.DriverFunc {
	return map[string]processes.DriverFunc{
		"redis":    openRedis,
		"rediss":   openRedis,
		"embedded": b.openEmbedded,
	}
}

func openRedis(e processes.Endpoint) (core.Driver, error) { return redis.New(e.URL, redis.Options{}) }

// driverOptions are the process's own options for its driver.
func driverOptions(process *config.Process) any {
	o := process.Redis
	return redis.Options{
		Prefix: o.Prefix, KeyStyle: redis.KeyStyle(o.KeyStyle), Keys: redis.Keys(o.Keys), DeadPrefix: o.DeadPrefix, Lease: o.Lease,
		DelayPoll: o.DelayPoll, Block: o.Block, Sweep: o.Sweep, Pool: o.Pool, WaitReplicas: o.WaitReplicas,
	}
}

// deadSink is a dead-letter list on a Redis endpoint for a process whose jobs are
// elsewhere.
func (b *brokers) deadSink(e processes.Endpoint, d core.Driver, s processes.Spec) (core.DeadSink, error) {
	lists, ok := d.(interface {
		DeadLetters(core.Binding, func(int, []string)) (*redis.DeadLetters, error)
	})
	if !ok {
		return nil, &core.SetupError{Sentence: fmt.Sprintf("transport %s cannot keep the dead letters of process %s: name a redis transport", e.Name, s.Name)}
	}
	dropped := func(n int, ids []string) {
		for _, listen := range b.listeners {
			listen(&core.Event{Kind: core.EventDeadOverflow, Time: time.Now(), Process: s.Name, Transport: e.Name, Queue: s.Queue, N: n, IDs: ids})
		}
	}
	return lists.DeadLetters(core.Binding{
		Process: s.Name, Queue: s.Queue, DeadLetters: s.DeadLetter.DeadLetterPolicy,
		Options: redis.Options{DeadPrefix: s.DeadLetter.Prefix}, Logger: b.program.logger,
	}, dropped)
}

// embeddedServers are the in-process brokers of one verb, by endpoint.
type embeddedServers struct {
	mu      sync.Mutex
	running map[string]*embedded.Driver
}

// openEmbedded returns the endpoint's embedded broker, started when first asked
// for.
func (b *brokers) openEmbedded(e processes.Endpoint) (core.Driver, error) {
	if e.URL != embeddedURL {
		return nil, &core.SetupError{Sentence: fmt.Sprintf("transport %s: %s is not built in this version, use %s", e.Name, e.URL, embeddedURL)}
	}
	b.servers.mu.Lock()
	defer b.servers.mu.Unlock()
	if driver := b.servers.running[e.Name]; driver != nil {
		return shared{driver}, nil
	}
	driver, err := embedded.New(redis.Options{})
	if err != nil {
		return nil, err
	}
	b.program.logger.Info("embedded.listening", "transport", e.Name, "url", "redis://"+driver.Addr()+"/0")
	if b.servers.running == nil {
		b.servers.running = map[string]*embedded.Driver{}
	}
	b.servers.running[e.Name] = driver
	return shared{driver}, nil
}

// embeddedAddress is the URL by which others reach an endpoint's embedded broker.
func (b *brokers) embeddedAddress(e processes.Endpoint) (string, error) {
	driver, err := b.openEmbedded(e)
	if err != nil {
		return "", err
	}
	return "redis://" + driver.(shared).Addr() + "/0", nil
}

func (s *embeddedServers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, driver := range s.running {
		_ = driver.Close(context.Background()) // in this process, nothing to wait for
	}
	s.running = nil
}

// shared is an embedded broker that outlives those who use it.
type shared struct{ *embedded.Driver }

// Close leaves the broker running.
func (shared) Close(context.Context) error { return nil }
