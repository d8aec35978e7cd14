package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// contender is one way to do the work.
type contender struct {
	name  string
	about string
	// consume starts working on the queue and returns at once; stop ends it and
	// waits. nil: it does not consume.
	consume func(ctx context.Context, addr string, w worker) (stop func() error, err error)
	// publisher connects and returns what stores one batch of payloads, confirmed.
	// nil: it does not publish.
	publisher func(ctx context.Context, addr string) (publish func(batch []orderPaid) error, err error)
}

// worker is what a contender runs.
type worker struct {
	concurrency int
	retryDelay  time.Duration // before a failed job is tried again
	handle      func(ctx context.Context, p orderPaid) error
}

func contenders() []contender {
	return []contender{rawBatch(), rawMove(), oursBare(), oursFull()}
}

func dial(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, Protocol: 3})
}
