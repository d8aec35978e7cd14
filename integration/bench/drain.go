package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// loadReady fills the ready list.
func loadReady(ctx context.Context, b *bench, t trial) error {
	const chunk = 1000
	for n := 0; n < t.Jobs; n += chunk {
		bodies := make([]any, 0, chunk)
		for i := n; i < min(n+chunk, t.Jobs); i++ {
			bodies = append(bodies, encodeJob(i, 0))
		}
		if err := b.rdb.LPush(ctx, readyKey, bodies...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// counter is a handler that counts, and closes all at the last job.
type counter struct {
	jobs  int64
	sleep time.Duration
	n     atomic.Int64
	all   chan struct{}
}

func newCounter(t trial) *counter {
	return &counter{jobs: int64(t.Jobs), sleep: t.Sleep, all: make(chan struct{})}
}

func (c *counter) handle(context.Context, orderPaid) error {
	if c.sleep > 0 {
		time.Sleep(c.sleep)
	}
	if c.n.Add(1) == c.jobs {
		close(c.all)
	}
	return nil
}

// exact says whether every job ran once: nothing breaks here, so a duplicate is a
// fault.
func (c *counter) exact() error {
	if n := c.n.Load(); n != c.jobs {
		return fmt.Errorf("%d jobs were loaded and %d handled", c.jobs, n)
	}
	return nil
}

// drain takes the time from the consumer's start until the last job is handled
// and the broker holds none.
func drain(ctx context.Context, addr string, t trial, c contender) (values, error) {
	probe, err := newProbe(ctx, addr)
	if err != nil {
		return nil, err
	}
	count := newCounter(t)
	before, err := probe.read(ctx)
	if err != nil {
		return nil, err
	}
	stop, err := c.start(ctx, addr, t, count.handle)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, count.all, count.n.Load, t); err != nil {
		return nil, err
	}
	if err := probe.awaitEmpty(ctx); err != nil {
		return nil, err
	}
	after, err := probe.read(ctx)
	if err := errors.Join(err, stop(), count.exact()); err != nil {
		return nil, err
	}
	perJob := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(t.Jobs) }
	return values{
		"jobs_per_s":            float64(t.Jobs) / after.at.Sub(before.at).Seconds(),
		"own_cpu_us_per_job":    perJob(after.ownCPU - before.ownCPU),
		"broker_cpu_us_per_job": perJob(after.brokerCPU - before.brokerCPU),
		"commands_per_job":      float64(after.commands-before.commands) / float64(t.Jobs),
		"peak_rss_mib":          peakRSS(),
	}, nil
}
