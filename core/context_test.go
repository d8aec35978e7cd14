package core

import (
	"context"
	"errors"
	"testing"
)

func newRunContext(parent context.Context) *runContext {
	return &runContext{task: &task{}, ctx: parent}
}

func TestARunContextEndsWithItsHandlerWhoeverAsksLater(t *testing.T) {
	t.Parallel()
	asked, unasked := newRunContext(t.Context()), newRunContext(t.Context())
	child, stop := context.WithCancel(asked)
	defer stop()
	if asked.Err() != nil || child.Err() != nil || asked.cause() != nil || unasked.cause() != nil {
		t.Fatal("cancelled before the end")
	}
	asked.cancel(nil)
	unasked.cancel(nil)
	for name, ctx := range map[string]context.Context{"asked before the end": asked, "its child": child, "not asked before": unasked} {
		<-ctx.Done()
		if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("%s: Err is %v, cause %v", name, ctx.Err(), context.Cause(ctx))
		}
	}
	late, stop := context.WithCancel(unasked)
	defer stop()
	<-late.Done()
}

func TestARunContextKeepsTheCauseOfItsCancellation(t *testing.T) {
	t.Parallel()
	for _, ask := range []bool{true, false} {
		timedOut := newRunContext(t.Context())
		parent, hardStop := context.WithCancelCause(t.Context())
		stopped := newRunContext(parent)
		if ask {
			timedOut.Done()
			stopped.Done()
		}
		timedOut.cancel(ErrTimedOut)
		hardStop(ErrStopping)
		for ctx, want := range map[*runContext]error{timedOut: ErrTimedOut, stopped: ErrStopping} {
			if ctx.cause() != want {
				t.Errorf("asked %v: the engine sees cause %v, want %v", ask, ctx.cause(), want)
			}
			<-ctx.Done()
			ctx.cancel(nil) // the handler returns
			if context.Cause(ctx) != want {
				t.Errorf("asked %v: the handler sees cause %v, want %v", ask, context.Cause(ctx), want)
			}
		}
	}
}
