package core

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Causes of a handler's cancellation, for context.Cause.
var (
	// ErrTimedOut: the job's time limit passed.
	ErrTimedOut = errors.New("time limit passed")
	// ErrLost: the job is no longer ours; whatever the handler returns is dropped.
	ErrLost = errors.New("job was lost to another consumer")
	// ErrStopping: the process stops now; the job goes back uncharged.
	ErrStopping = errors.New("process is stopping")
)

// runKey finds the *task in a handler's context.
type runKey struct{}

// publisherKey finds the process's *Publisher in a handler's context.
type publisherKey struct{}

// runContext is what a handler gets: an ordinary cancellable context with the
// job's deadline, which can move (Extend), and the engine's values. The ordinary
// context is made when somebody first asks for it; most handlers that take
// microseconds never do.
type runContext struct {
	task *task

	mu    sync.Mutex
	ctx   context.Context         // the parent until made; then the handler's own
	stop  context.CancelCauseFunc // nil: not made yet
	ended bool                    // the handler returned before it was made
}

// made returns the ordinary context.
func (c *runContext) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.madeLocked()
}

func (c *runContext) madeLocked() context.Context {
	if c.stop == nil {
		c.ctx, c.stop = context.WithCancelCause(c.ctx)
		if c.ended {
			c.stop(nil)
		}
	}
	return c.ctx
}

// cancel ends the context, for a cause or because the handler has returned (nil).
func (c *runContext) cancel(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil && cause == nil {
		c.ended = true
		return
	}
	c.madeLocked()
	c.stop(cause)
}

// cause is why the context was cancelled, nil if it was not.
func (c *runContext) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return context.Cause(c.ctx)
}

func (c *runContext) Done() <-chan struct{} { return c.made().Done() }

func (c *runContext) Err() error { return c.made().Err() }

// Deadline is when the handler will be cancelled, as of now.
func (c *runContext) Deadline() (time.Time, bool) {
	if d := c.task.deadline.Load(); d != 0 {
		return time.Unix(0, d), true
	}
	return time.Time{}, false
}

func (c *runContext) Value(key any) any {
	switch key.(type) {
	case runKey:
		return c.task
	case publisherKey:
		return c.task.publisher
	}
	return c.made().Value(key)
}

// JobFrom returns the job that ctx's handler runs, nil outside a handler.
func JobFrom(ctx context.Context) *Job {
	if t, ok := ctx.Value(runKey{}).(*task); ok {
		return &t.given
	}
	return nil
}

// PublisherFrom returns the publisher of the process that runs ctx's handler: it
// publishes to the process's own queue. nil outside a handler.
func PublisherFrom(ctx context.Context) *Publisher {
	p, _ := ctx.Value(publisherKey{}).(*Publisher)
	return p
}

// Extend gives the running handler d from now instead of what is left of its
// time limit. It reports false outside a handler, without a time limit, and when
// the limit has already passed.
func Extend(ctx context.Context, d time.Duration) bool {
	t, ok := ctx.Value(runKey{}).(*task)
	return ok && t.extend(d)
}
