package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// durations collects how long or how late things were, from many goroutines.
type durations struct {
	mu   sync.Mutex
	all  []time.Duration
	want int
	done chan struct{} // closed when there are want of them
}

func newDurations(want int) *durations {
	return &durations{all: make([]time.Duration, 0, want), want: want, done: make(chan struct{})}
}

func (d *durations) add(one time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all = append(d.all, one); len(d.all) == d.want {
		close(d.done)
	}
}

func (d *durations) count() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return int64(len(d.all))
}

// values gives the quantiles in milliseconds.
func (d *durations) values() values {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.Sort(d.all)
	at := func(q float64) float64 { return ms(d.all[int(q*float64(len(d.all)-1))]) }
	return values{"min_ms": at(0), "p50_ms": at(0.50), "p99_ms": at(0.99), "max_ms": at(1)}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// latency pushes a job each 5 ms to a waiting consumer and measures from the push
// to the handler's start.
func latency(ctx context.Context, addr string, t trial, c contender) (values, error) {
	const interval = 5 * time.Millisecond
	took := newDurations(t.Jobs)
	stop, err := c.start(ctx, addr, t, func(_ context.Context, p orderPaid) error {
		took.add(time.Since(time.Unix(0, p.At)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	rdb := dial(addr)
	defer rdb.Close()
	for n := range t.Jobs {
		if err := sleep(ctx, interval); err != nil {
			return nil, err
		}
		if err := rdb.LPush(ctx, readyKey, encodeJob(n, time.Now().UnixNano())).Err(); err != nil {
			return nil, err
		}
	}
	if err := await(ctx, took.done, took.count, t); err != nil {
		return nil, err
	}
	return took.values(), stop()
}

// retryDelay is when a failed job is due again.
const retryDelay = 100 * time.Millisecond

// errFirstRun fails every job once.
var errFirstRun = errors.New("the first run fails")

// retry lets every job fail once and measures how much later than due it runs
// again; due is retryDelay after the first run's end.
func retry(ctx context.Context, addr string, t trial, c contender) (values, error) {
	late := newDurations(t.Jobs)
	var mu sync.Mutex
	due := make(map[int]time.Time, t.Jobs)
	stop, err := c.start(ctx, addr, t, func(_ context.Context, p orderPaid) error {
		mu.Lock()
		defer mu.Unlock()
		if at, second := due[p.OrderID]; second {
			late.add(time.Since(at))
			return nil
		}
		due[p.OrderID] = time.Now().Add(retryDelay)
		return errFirstRun
	})
	if err != nil {
		return nil, err
	}
	if err := await(ctx, late.done, late.count, t); err != nil {
		return nil, err
	}
	return late.values(), stop()
}

// idle measures what a consumer of an empty queue costs in t.Over.
func idle(ctx context.Context, addr string, t trial, c contender) (values, error) {
	const settle = 2 * time.Second
	probe, err := newProbe(ctx, addr)
	if err != nil {
		return nil, err
	}
	stop, err := c.start(ctx, addr, t, newCounter(t).handle)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, err
	}
	before, err := probe.read(ctx)
	if err == nil {
		err = sleep(ctx, t.Over)
	}
	if err != nil {
		return nil, err
	}
	after, err := probe.read(ctx)
	return values{
		"commands":   float64(after.commands - before.commands),
		"own_cpu_ms": ms(after.ownCPU - before.ownCPU),
	}, errors.Join(err, stop())
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
