package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// The raw loops are the least code that is still at-least-once: a job stays in a
// processing list until its handler is done, and what is found there at the start
// is run again. They have no retries, dead letters, time limits or leases.

const (
	readyKey      = "dq:ready:{bench}"
	delayKey      = "dq:delay:{bench}"
	processingKey = "dq:processing:{bench}:raw"
	rawBlock      = time.Second
)

// rawBatch is the limit: N jobs a script call, acknowledgements pipelined.
func rawBatch() contender {
	return contender{
		name:      "raw batch",
		about:     "go-redis: 64 jobs a script call (LRANGE, LTRIM, LPUSH), LREM pipelined; the limit",
		consume:   consumeBatches,
		publisher: rawPublisher,
	}
}

// rawMove is what most hand-written consumers do.
func rawMove() contender {
	return contender{
		name:    "raw move",
		about:   "go-redis: BLMOVE and LREM for each job, a connection a worker",
		consume: consumeMoves,
	}
}

const rawBatchSize = 64

// claim moves the oldest jobs of ready (KEYS[1]) to processing (KEYS[2]).
var claim = redis.NewScript(`
local jobs = redis.call('LRANGE', KEYS[1], -ARGV[1], -1)
if #jobs > 0 then
	redis.call('LTRIM', KEYS[1], 0, -(#jobs + 1))
	redis.call('LPUSH', KEYS[2], unpack(jobs))
end
return jobs`)

func consumeBatches(ctx context.Context, addr string, w worker) (func() error, error) {
	rdb := dial(addr)
	if err := requeue(ctx, rdb); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	jobs, done := make(chan string, rawBatchSize), make(chan string, rawBatchSize)
	var workers, acks sync.WaitGroup
	go func() {
		defer close(jobs)
		for ctx.Err() == nil {
			for _, body := range claimBatch(ctx, rdb) {
				jobs <- body
			}
		}
	}()
	for range w.concurrency {
		workers.Go(func() {
			for body := range jobs {
				if handleRaw(ctx, w, body) {
					done <- body
				}
			}
		})
	}
	acks.Go(func() { ackPipelined(rdb, done) })
	return func() error {
		cancel()
		workers.Wait()
		close(done)
		acks.Wait()
		return rdb.Close()
	}, nil
}

// claimBatch takes what is there, or waits for the next job.
func claimBatch(ctx context.Context, rdb *redis.Client) []string {
	jobs, err := claim.Run(ctx, rdb, []string{readyKey, processingKey}, rawBatchSize).StringSlice()
	if err == nil && len(jobs) == 0 {
		var job string
		job, err = rdb.BLMove(ctx, readyKey, processingKey, "RIGHT", "LEFT", rawBlock).Result()
		jobs = []string{job}
	}
	if err != nil {
		logRaw(ctx, err)
		return nil
	}
	return jobs
}

// ackPipelined removes what is done; what gathers during one round trip is the
// next pipeline.
func ackPipelined(rdb *redis.Client, done <-chan string) {
	ctx := context.Background()
	for body := range done {
		pipe := rdb.Pipeline()
		pipe.LRem(ctx, processingKey, -1, body)
		for range min(len(done), rawBatchSize-1) {
			pipe.LRem(ctx, processingKey, -1, <-done)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			logRaw(ctx, err)
		}
	}
}

func consumeMoves(ctx context.Context, addr string, w worker) (func() error, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: w.concurrency})
	if err := requeue(ctx, rdb); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for range w.concurrency {
		workers.Go(func() {
			for ctx.Err() == nil {
				body, err := rdb.BLMove(ctx, readyKey, processingKey, "RIGHT", "LEFT", rawBlock).Result()
				if err == nil && handleRaw(ctx, w, body) {
					err = rdb.LRem(context.Background(), processingKey, -1, body).Err()
				}
				if err != nil {
					logRaw(ctx, err)
				}
			}
		})
	}
	return func() error {
		cancel()
		workers.Wait()
		return rdb.Close()
	}, nil
}

// requeue gives back what an earlier run left.
func requeue(ctx context.Context, rdb *redis.Client) error {
	for {
		err := rdb.LMove(ctx, processingKey, readyKey, "LEFT", "RIGHT").Err()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// handleRaw decodes and runs one job and says whether it is done.
func handleRaw(ctx context.Context, w worker, body string) bool {
	var job envelope
	err := json.Unmarshal([]byte(body), &job)
	if err == nil {
		err = w.handle(ctx, job.Payload)
	}
	if err != nil {
		logRaw(ctx, err)
	}
	return err == nil
}

func logRaw(ctx context.Context, err error) {
	if !errors.Is(err, redis.Nil) && ctx.Err() == nil {
		log.Print("raw: ", err)
	}
}

// rawPublisher encodes and pushes a batch with one LPUSH.
func rawPublisher(_ context.Context, addr string) (func([]orderPaid) error, error) {
	rdb := dial(addr)
	return func(batch []orderPaid) error {
		bodies := make([]any, len(batch))
		for i, p := range batch {
			bodies[i] = encodeJob(p.OrderID, p.At)
		}
		return rdb.LPush(context.Background(), readyKey, bodies...).Err()
	}, nil
}
