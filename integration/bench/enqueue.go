package main

import (
	"context"
	"fmt"
	"time"
)

// enqueue publishes from one goroutine in batches of t.Batch, each confirmed
// before the next.
func enqueue(ctx context.Context, addr string, t trial, c contender) (values, error) {
	publish, err := c.publisher(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := publish([]orderPaid{{OrderID: -1}}); err != nil { // connects
		return nil, err
	}
	beginCPU, begin := ownCPU(), time.Now()
	for n := 0; n < t.Jobs; n += t.Batch {
		batch := make([]orderPaid, 0, t.Batch)
		for i := n; i < min(n+t.Batch, t.Jobs); i++ {
			batch = append(batch, orderPaid{OrderID: i, Amount: "19.90", Currency: "EUR"})
		}
		if err := publish(batch); err != nil {
			return nil, err
		}
	}
	took, cpu := time.Since(begin), ownCPU()-beginCPU
	rdb := dial(addr)
	defer rdb.Close()
	stored, err := rdb.LLen(ctx, readyKey).Result()
	if err == nil && stored != int64(t.Jobs)+1 {
		err = fmt.Errorf("%d jobs were published and %d stored", t.Jobs+1, stored)
	}
	return values{
		"jobs_per_s":         float64(t.Jobs) / took.Seconds(),
		"own_cpu_us_per_job": float64(cpu.Microseconds()) / float64(t.Jobs),
	}, err
}
