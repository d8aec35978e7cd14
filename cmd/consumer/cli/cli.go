// Package cli is the command line of consumer, importable so that a program with
// its own Go handlers has every verb:
//
//	func main() {
//		reg := core.NewRegistry()
//		core.Handle(reg, "order.paid", orderPaid)
//		cli.Main(cli.Options{Registry: reg})
//	}
//
// Results go to stdout; logs and errors go to stderr. Exit codes are constants of
// this package (ExitOK, ExitFailed, …).
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes"
)

// Options describes a program. Its zero value is the stock binary.
type Options struct {
	// Name is how the program calls itself; default "consumer".
	Name string
	// Registry holds the program's Go handlers; the config's handlers are added
	// to them. nil = none.
	Registry *core.Registry
	// Hooks are called around the life of each process that run hosts.
	Hooks processes.Hooks
	// Version is what `version` prints; default: the module's version as the Go
	// toolchain recorded it.
	Version string
}

// Process is what a program gets from its operating system.
type Process struct {
	Args           []string // without the program's own name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            []string // KEY=value, as os.Environ
	// Signals delivers SIGINT and SIGTERM (and SIGHUP, which `run` answers). nil:
	// Execute listens for them itself and gives the default behaviour back when it
	// returns.
	Signals <-chan os.Signal
}

// Main runs the program with the arguments, streams, environment and signals of
// the OS process and exits with its code.
func Main(opts Options) {
	os.Exit(Execute(context.Background(), opts, Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ(),
	}))
}

// haltGrace is how long a verb may go on after a second signal, to give jobs back.
const haltGrace = 500 * time.Millisecond

// Execute runs one command line and returns its exit code. The first signal, like
// the end of ctx, stops the verb softly; a second one makes Execute return
// ExitInterrupted or ExitTerminated within half a second, whatever the verb does.
func Execute(ctx context.Context, opts Options, p Process) int {
	if p.Signals == nil {
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer signal.Stop(signals)
		p.Signals = signals
	}
	if opts.Name == "" {
		opts.Name = "consumer"
	}

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	halt, hardStop := context.WithCancel(context.WithoutCancel(ctx))
	defer hardStop()
	reload := make(chan struct{}, 1)
	prog := &program{opts: opts, process: p, halt: halt, reload: reload}

	done := make(chan int, 1)
	go func() { done <- prog.run(ctx) }()
	for stopping := false; ; {
		select {
		case code := <-done:
			return code
		case sig := <-p.Signals:
			switch {
			case sig == syscall.SIGHUP:
				select {
				case reload <- struct{}{}:
				default: // one is waiting, which will see this change too
				}
			case !stopping:
				stopping = true
				stop(&signalError{sig})
			default:
				hardStop()
				select {
				case <-done:
				case <-time.After(haltGrace):
				}
				return exitCode(&signalError{sig})
			}
		}
	}
}
