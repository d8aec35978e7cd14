package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/telemetry"
	"github.com/goconsumer/consumer/processes"
	"github.com/goconsumer/consumer/transport/redis"
)

// oursBare is this project as the engine over its driver, with what every process
// has: a time limit, retries, dead letters, a lease.
func oursBare() contender {
	return contender{
		name:      bare,
		about:     "core.Engine over transport/redis, a typed handler, 2 min time limit",
		consume:   consumeEngine,
		publisher: oursPublisher,
	}
}

// oursFull is the same hosted by the process manager, as the stock binary does it.
func oursFull() contender {
	return contender{
		name:    full,
		about:   "processes.Manager with metrics and JSON logs from info up (one line a finished job at debug)",
		consume: consumeManaged,
	}
}

const handlerTimeout = 2 * time.Minute

// retryPolicy tries again after a fixed delay.
func retryPolicy(w worker) core.RetryPolicy {
	return core.RetryPolicy{Type: core.RetryFixed, BaseDelay: w.retryDelay}.WithDefaults()
}

func register(w worker) (*core.Registry, error) {
	registry := core.NewRegistry()
	return registry, core.Handle(registry, jobType, w.handle)
}

func consumeEngine(ctx context.Context, addr string, w worker) (func() error, error) {
	registry, err := register(w)
	if err != nil {
		return nil, err
	}
	view, err := registry.View(nil)
	if err != nil {
		return nil, err
	}
	driver, err := redis.New("redis://"+addr+"/0", redis.Options{})
	if err != nil {
		return nil, err
	}
	engine, err := core.NewEngine(core.EngineConfig{
		Transport: "redis", Driver: driver, Handlers: view,
		Binding: core.Binding{Process: "bench", Queue: queue, Concurrency: w.concurrency},
		Retry:   retryPolicy(w), Timeout: handlerTimeout,
	})
	if err != nil {
		return nil, err
	}
	return background(ctx, engine.Run, func() error { return driver.Close(context.Background()) }), nil
}

func consumeManaged(ctx context.Context, addr string, w worker) (func() error, error) {
	registry, err := register(w)
	if err != nil {
		return nil, err
	}
	logger := slog.New(slog.NewJSONHandler(io.Discard, nil))
	metrics := telemetry.NewMetrics()
	manager, err := processes.New(
		[]processes.Spec{{
			Name: "bench", Transport: "redis", Queue: queue, Concurrency: w.concurrency,
			Retry: retryPolicy(w), HandlerTimeout: handlerTimeout,
		}},
		processes.Options{
			Endpoints: []processes.Endpoint{{Name: "redis", URL: "redis://" + addr + "/0"}},
			Drivers: map[string]processes.DriverFunc{
				"redis": func(e processes.Endpoint) (core.Driver, error) { return redis.New(e.URL, redis.Options{}) },
			},
			Registry:  registry,
			Listeners: []core.Listener{metrics.Listener(), telemetry.LogListener(logger, func(string) bool { return false })},
			Logger:    logger,
		})
	if err != nil {
		return nil, err
	}
	return background(ctx, manager.Run, func() error { return nil }), nil
}

// background starts run; the returned stop ends it, waits and calls after.
func background(ctx context.Context, run func(context.Context) error, after func() error) func() error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() error {
		cancel()
		return errors.Join(<-ended, after())
	}
}

// oursPublisher publishes through core.Publisher.
func oursPublisher(ctx context.Context, addr string) (func([]orderPaid) error, error) {
	driver, err := redis.New("redis://"+addr+"/0", redis.Options{})
	if err != nil {
		return nil, err
	}
	port, err := driver.OpenPublisher(ctx, core.Binding{Process: "bench", Queue: queue})
	if err != nil {
		return nil, err
	}
	publisher := core.NewPublisher(port)
	return func(batch []orderPaid) error {
		jobs := make([]core.Outgoing, len(batch))
		for i, payload := range batch {
			job, err := core.NewJob(jobType, payload)
			if err != nil {
				return err
			}
			jobs[i].Job = job
		}
		return errors.Join(publisher.PublishBatch(context.Background(), jobs)...)
	}, nil
}
