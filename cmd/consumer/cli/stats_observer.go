package cli

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/deadletter"
	"github.com/goconsumer/consumer/processes"
)

// rateSpan is the time between the two looks at a host of a stats that is not
// watched.
const rateSpan = 500 * time.Millisecond

// observer looks at what the brokers hold, again and again, over connections that
// it keeps. One goroutine at a time looks.
type observer struct {
	program *program
	config  *config.Config
	picked  []*config.Process
	brokers *brokers
	host    *hostCounters // nil: no admin address is known

	mu      sync.Mutex
	drivers map[string]core.Driver // by transport; guarded by mu

	last []glance // of the look before
}

// glance is what a rate is made of.
type glance struct {
	at      time.Time
	settled *float64 // jobs that ended on the host, since it started
	waiting *int64   // ready, delayed and in flight
}

func (p *program) newObserver(cfg *config.Config, picked []*config.Process) *observer {
	return &observer{
		program: p, config: cfg, picked: picked, brokers: p.newBrokers(false), host: newHostCounters(cfg.Admin),
		drivers: map[string]core.Driver{},
	}
}

func (o *observer) close() {
	for _, driver := range o.drivers {
		_ = driver.Close(context.Background()) // it only read
	}
	o.brokers.close()
	o.host.close()
}

// lookTwice looks once, or where a host tells what it has done, twice within half
// a second, so that there is a rate.
func (o *observer) lookTwice(ctx context.Context) []processStats {
	all := o.look(ctx)
	for _, g := range o.last {
		if g.settled != nil {
			select {
			case <-time.After(rateSpan):
				return o.look(ctx)
			case <-ctx.Done():
				return all
			}
		}
	}
	return all
}

// look asks all brokers at once, so that one that is down holds up nobody.
func (o *observer) look(ctx context.Context) []processStats {
	ctx, cancel := context.WithTimeout(ctx, statsTimeout)
	defer cancel()
	all := make([]processStats, len(o.picked))
	glances := make([]glance, len(o.picked))
	var settled map[string]float64
	var wg sync.WaitGroup
	wg.Go(func() { settled = o.host.settled(ctx) })
	for i, process := range o.picked {
		wg.Go(func() {
			all[i] = processStats{Process: process.Name, Transport: process.Transport, Queue: process.Queue}
			stats, err := o.inspect(ctx, process)
			all[i].err = err
			all[i].Ready, all[i].Delayed, all[i].InFlight = stats.Ready, stats.Delayed, stats.InFlight
			all[i].Dead, all[i].OldestSeconds, all[i].Lag = stats.Dead, stats.OldestSeconds, stats.Lag
			all[i].Paused = stats.Paused
			glances[i] = glance{at: time.Now(), waiting: waiting(stats)}
		})
	}
	wg.Wait()
	for i, process := range o.picked {
		if n, ok := settled[process.Name]; ok {
			glances[i].settled = &n
		}
		if o.last != nil {
			all[i].Rate = glances[i].since(o.last[i])
		}
	}
	o.last = glances
	return all
}

func waiting(s core.QueueStats) *int64 {
	if s.Ready == nil || s.Delayed == nil || s.InFlight == nil {
		return nil
	}
	return new(*s.Ready + *s.Delayed + *s.InFlight)
}

// since is the rate in jobs a second since an earlier glance, to a tenth: what the
// host says that it has ended; without a host, by how much fewer are waiting,
// which is the least that must have ended. nil = nobody knows.
func (g glance) since(earlier glance) *float64 {
	seconds := g.at.Sub(earlier.at).Seconds()
	ended := -1.0
	switch {
	case g.settled != nil && earlier.settled != nil:
		ended = *g.settled - *earlier.settled // less than 0: another host
	case g.settled == nil && g.waiting != nil && earlier.waiting != nil && *g.waiting < *earlier.waiting:
		ended = float64(*earlier.waiting - *g.waiting)
	}
	if ended < 0 || seconds <= 0 {
		return nil
	}
	return new(math.Round(10*ended/seconds) / 10)
}

func (o *observer) inspect(ctx context.Context, process *config.Process) (core.QueueStats, error) {
	if isEmbedded(o.config, process.Transport) { // in another program, if anywhere
		return core.QueueStats{}, nil
	}
	driver, err := o.driver(process.Transport)
	if err != nil {
		return core.QueueStats{}, err
	}
	inspector, ok := driver.(core.Inspector)
	if !ok {
		return core.QueueStats{}, nil // it tells nothing
	}
	stats, err := inspector.Inspect(ctx, binding(process, o.program.logger))
	switch {
	case err != nil:
		return core.QueueStats{}, err
	case process.DeadLetter.Driver == processes.DeadLogOnly:
		stats.Dead = nil
	case deadPlace(process) != process.Transport:
		stats.Dead = nil
		err = o.countDead(ctx, process, &stats)
	}
	return stats, err
}

// countDead counts dead letters that another transport keeps.
func (o *observer) countDead(ctx context.Context, process *config.Process, stats *core.QueueStats) error {
	driver, err := o.driver(deadPlace(process))
	if err != nil {
		return err
	}
	opener, ok := driver.(deadletter.Opener)
	if !ok {
		return nil // it tells nothing
	}
	store, err := opener.OpenDeadLetters(ctx, binding(process, o.program.logger))
	if err != nil {
		return err
	}
	n, err := store.Count(ctx)
	if err == nil {
		stats.Dead = &n
	}
	return err
}

// driver is the transport's one driver; opening it does not wait for the broker.
func (o *observer) driver(transport string) (core.Driver, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if driver := o.drivers[transport]; driver != nil {
		return driver, nil
	}
	driver, err := o.brokers.openTransport(o.config, transport)
	if err == nil {
		o.drivers[transport] = driver
	}
	return driver, err
}
