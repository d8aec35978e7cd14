package processes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// StopError is why Manager.Run did not end well.
type StopError struct {
	Code      int // the exit code that it stands for
	Processes []*ProcessError
}

// Error is one sentence for each process.
func (e *StopError) Error() string {
	sentences := make([]string, len(e.Processes))
	for i, p := range e.Processes {
		sentences[i] = p.Error()
	}
	return strings.Join(sentences, "; ")
}

func (e *StopError) Unwrap() []error {
	errs := make([]error, len(e.Processes))
	for i, p := range e.Processes {
		errs[i] = p
	}
	return errs
}

// ProcessError says why a process is not running any more, or what its stop left
// behind. Passwords in it are masked.
type ProcessError struct {
	Process string
	Err     error
}

// Error names the process once: a sentence of the core may do so already.
func (e *ProcessError) Error() string {
	prefix := "process " + e.Process + ": "
	return prefix + strings.TrimPrefix(MaskURL(e.Err.Error()), prefix)
}

func (e *ProcessError) Unwrap() error { return e.Err }

// CrashLoopError says that a replica ended by itself too often in a row.
type CrashLoopError struct {
	Crashes int
	Err     error // the last one
}

func (e *CrashLoopError) Error() string {
	return fmt.Sprintf("stopped after %d crashes in a row: %v", e.Crashes, e.Err)
}

func (e *CrashLoopError) Unwrap() error { return e.Err }

// GiveUpError says that a process was not ready for as long as
// Options.GiveUpAfter.
type GiveUpError struct {
	After  time.Duration
	Reason string
}

func (e *GiveUpError) Error() string { return fmt.Sprintf("gave up after %v: %s", e.After, e.Reason) }

// ExitCode is the exit code that an error of New or Manager.Run stands for.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if stop, ok := errors.AsType[*StopError](err); ok {
		return stop.Code
	}
	if _, ok := errors.AsType[*core.SetupError](err); ok {
		return ExitConfig
	}
	return ExitFailed
}

// UnknownProcessError says that a host has no process of that name.
type UnknownProcessError struct{ Name string }

func (e *UnknownProcessError) Error() string { return "this host has no process named " + e.Name }

// verdict sums the processes up. asked says that somebody wanted the stop; else
// nothing was left running.
func (m *Manager) verdict(asked bool) error {
	ended := slices.Clone(m.leftovers)
	gaveUp, onlySetup := false, len(ended) == 0
	for _, p := range m.current() {
		_, give := errors.AsType[*GiveUpError](p.err)
		_, setup := errors.AsType[*core.SetupError](p.err)
		gaveUp = gaveUp || give
		onlySetup = onlySetup && setup
		// After a stop that was asked for, a setup fault is old news: it was
		// logged, its process held nothing and the others did their work.
		if p.err != nil && !(asked && setup) {
			ended = append(ended, &ProcessError{p.spec.Name, p.err})
		}
		ended = append(ended, p.unsettledErrors()...)
	}
	switch {
	case len(ended) == 0:
		return nil
	case gaveUp:
		return &StopError{ExitUnreachable, ended}
	case !asked && onlySetup:
		return &StopError{ExitConfig, ended}
	}
	return &StopError{ExitFailed, ended}
}
