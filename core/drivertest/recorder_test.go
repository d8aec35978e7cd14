package drivertest

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
)

// recorder is a testing.TB that only records, so that a case may fail.
type recorder struct {
	testing.TB
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{TB: t}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

func (r *recorder) Helper()                  {}
func (r *recorder) Log(...any)               {}
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Context() context.Context { return r.ctx }

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) record(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, text)
}

func (r *recorder) Error(args ...any)                 { r.record(fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.record(fmt.Sprintf(format, args...)) }

// play runs f to its end, to its failure or to its panic, which counts as one.
func (r *recorder) play(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if v := recover(); v != nil {
				r.record(fmt.Sprintf("panic: %v\n%s", v, debug.Stack()))
			}
		}()
		f()
	}()
	<-ended
}

func (r *recorder) Fatal(args ...any) {
	r.record(fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.record(fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// finish runs the clean-ups and returns what failed.
func (r *recorder) finish() []string {
	r.cancel()
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		r.play(last)
	}
	return r.failures
}
