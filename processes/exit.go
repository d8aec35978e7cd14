package processes

import (
	"errors"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Exit codes of a program that hosts processes.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUnreachable = 69 // broker
	ExitConfig      = 78 // configuration or topology
)

// ProcessError says why a process is not running any more.
type ProcessError struct {
	Process string
	Err     error
}

func (e *ProcessError) Error() string { return "process " + e.Process + ": " + e.Err.Error() }
func (e *ProcessError) Unwrap() error { return e.Err }

// CrashLoopError: the process's engine ended by itself too often.
type CrashLoopError struct {
	Crashes int
	Err     error // the last one
}

func (e *CrashLoopError) Error() string { return "stopped after crashing again and again: " + e.Err.Error() }
func (e *CrashLoopError) Unwrap() error { return e.Err }

// GiveUpError: a process was not ready for as long as Options.GiveUpAfter.
type GiveUpError struct {
	After  time.Duration
	Reason string
}

func (e *GiveUpError) Error() string {
	return "gave up after " + e.After.String() + ": " + e.Reason
}

// ExitCode is the exit code that Manager.Run's error stands for: 0 after a stop
// in which every job finished or was released, 69 when it gave up, 78 when
// nothing is left running because of configuration or topology, else 1.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if _, ok := errors.AsType[*GiveUpError](err); ok {
		return ExitUnreachable
	}
	if _, ok := errors.AsType[*core.SetupError](err); ok {
		return ExitConfig
	}
	return ExitFailed
}
