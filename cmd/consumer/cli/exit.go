package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/goconsumer/consumer/core"
)

// Exit codes of every verb.
const (
	ExitOK          = 0
	ExitFailed      = 1   // the work was not done, or not all of it
	ExitUsage       = 2   // the command line is wrong
	ExitUnreachable = 69  // a broker cannot be reached
	ExitConfig      = 78  // the config, or what it asks of a broker, is wrong
	ExitInterrupted = 130 // a second SIGINT
	ExitTerminated  = 143 // a second SIGTERM
)

// exitError is an error with the exit code that it means. An empty text prints
// nothing: the verb has said it all.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageErrorf is a wrong command line.
func usageErrorf(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// errReported is a failure whose sentences are on stderr already.
var errReported = errors.New("")

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return "stopped by " + e.signal.String() }

// exitCode maps what a verb returned.
func exitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if coded, ok := errors.AsType[*exitError](err); ok {
		return coded.code
	}
	if sig, ok := errors.AsType[*signalError](err); ok {
		if sig.signal == syscall.SIGTERM {
			return ExitTerminated
		}
		return ExitInterrupted
	}
	if _, ok := errors.AsType[*core.SetupError](err); ok {
		return ExitConfig
	}
	return ExitFailed
}

// interrupted gives an error that comes from the end of ctx the exit code of the
// signal that ended it.
func interrupted(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return &exitError{exitCode(cause), fmt.Errorf("%w: %w", cause, err)}
}
