package main

import (
	"context"
	"fmt"
	"time"
)

// trial is one measurement of one contender, done in a process of its own.
type trial struct {
	Row         string        `json:"row"`
	Contender   string        `json:"contender"`
	Kind        string        `json:"kind"` // a key of measurements
	Jobs        int           `json:"jobs"`
	Concurrency int           `json:"concurrency"`
	Sleep       time.Duration `json:"sleep,omitempty"` // of the handler
	Batch       int           `json:"batch,omitempty"` // enqueue: jobs a call
	Over        time.Duration `json:"over,omitempty"`  // how long the job's times spread, or the idle time
}

// values is what a trial measured; the units stand in the names.
type values map[string]float64

// measurement is one way to measure.
type measurement struct {
	// load fills the queue, in the parent, before the contender's process starts;
	// nil: the queue is empty.
	load func(ctx context.Context, b *bench, t trial) error
	run  func(ctx context.Context, addr string, t trial, c contender) (values, error)
}

func measurements() map[string]measurement {
	return map[string]measurement{
		"drain":    {load: loadReady, run: drain},
		"latency":  {run: latency},
		"retry":    {load: loadReady, run: retry},
		"idle":     {run: idle},
		"enqueue":  {run: enqueue},
		"promote":  {load: loadDue, run: promote},
		"lateness": {load: loadSpread, run: lateness},
	}
}

// trialLimit ends a trial that hangs.
const trialLimit = 5 * time.Minute

// runTrial is the child's work.
func runTrial(ctx context.Context, addr string, t trial) (values, error) {
	ctx, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	for _, c := range contenders() {
		if c.name == t.Contender {
			return measurements()[t.Kind].run(ctx, addr, t, c)
		}
	}
	return nil, fmt.Errorf("no contender %q", t.Contender)
}

// start begins to consume.
func (c contender) start(ctx context.Context, addr string, t trial, handle func(context.Context, orderPaid) error) (stop func() error, err error) {
	return c.consume(ctx, addr, worker{concurrency: t.Concurrency, retryDelay: retryDelay, handle: handle})
}

// await waits for done, or says how far the trial came.
func await(ctx context.Context, done <-chan struct{}, progress func() int64, t trial) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%d of %d jobs were handled: %w", progress(), t.Jobs, ctx.Err())
	}
}
