package core

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff spaces tries at something that does not work right now.
type backoff struct {
	first, most time.Duration
	tries       int
}

func (b *backoff) reset() { b.tries = 0 }

// wait waits for the next try; false when ctx ended first.
func (b *backoff) wait(ctx context.Context) bool {
	b.tries++
	timer := time.NewTimer(backoffAt(b.first, b.most, b.tries))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// backoffAt is the pause after the n-th failure (from 1): doubling, capped, and
// spread over its upper half so that many consumers don't return together.
func backoffAt(first, most time.Duration, n int) time.Duration {
	d := most
	if n < 32 && first<<(n-1) < most {
		d = first << (n - 1)
	}
	return d/2 + rand.N(d/2+1)
}
