package deadletter

import (
	"context"
	"time"
)

// throttle does a piece of work on n entries and returns no sooner than a rate of
// so many entries a second allows (0 = at once), or when ctx ends.
func throttle(ctx context.Context, rate float64, n int, work func() error) error {
	if rate <= 0 {
		return work()
	}
	pause := time.NewTimer(time.Duration(float64(n) / rate * float64(time.Second)))
	defer pause.Stop()
	if err := work(); err != nil {
		return err
	}
	select {
	case <-pause.C:
	case <-ctx.Done(): // the next step says so
	}
	return nil
}

// paced is the size of a batch that is done at once: a small part of a second.
func paced(rate float64, batch int) int {
	if rate <= 0 {
		return batch
	}
	return min(max(int(rate/10), 1), batch)
}
