package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// KillAfter is how long a command may go on after TERM before it gets KILL. An
// engine that runs commands needs a longer grace period than that, else it takes
// the handler for stuck (processes.Spec.Grace).
const KillAfter = 2 * time.Second

const (
	stdoutTail = 64 << 10 // bytes kept to find the last line
	stderrTail = 2 << 10  // bytes kept for the error
)

// Commands runs commands as handlers and knows which run. The zero value is
// ready to use.
type Commands struct {
	mu      sync.Mutex
	running map[*os.Process]struct{}
	killed  bool
}

// Exec is a handler that runs a command in a process group of its own, with the
// envelope on stdin and JOB_ID, JOB_TYPE and JOB_ATTEMPT in the environment. A
// last line on stdout like an HTTP handler's JSON answer decides, else the exit
// code does: 0 SUCCESS, 65 FAIL, 75 RETRY, 76 DEFER, 100 DISCARD, everything
// else, a signal too, RETRY. The tail of stderr is the error. When its time is
// over the group gets TERM, and KILL after KillAfter.
func (c *Commands) Exec(command ...string) core.Handler {
	return func(ctx context.Context, job *core.Job) error {
		stdout, stderr := tail{limit: stdoutTail}, tail{limit: stderrTail}
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Stdin = bytes.NewReader(job.As(core.FormatJob).Append(nil))
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Env = append(os.Environ(),
			"JOB_ID="+printable(job.ID), "JOB_TYPE="+printable(job.Type), "JOB_ATTEMPT="+strconv.Itoa(job.Attempt))
		ownGroup(cmd)
		cut := false // written before Wait returns, if at all
		cmd.Cancel = func() error {
			err := terminate(cmd.Process)
			cut = err == nil
			return err
		}
		// Bounds also the wait for pipes that a grandchild holds open.
		cmd.WaitDelay = KillAfter

		if err := cmd.Start(); err != nil {
			if ctx.Err() != nil {
				return core.Retry(context.Cause(ctx))
			}
			return core.Retry(fmt.Errorf("command did not start: %w", err))
		}
		c.add(cmd.Process)
		_ = cmd.Wait() // the process's state says more
		c.remove(cmd.Process)
		if cut {
			kill(cmd.Process) // what is left of the group
			return core.Retry(context.Cause(ctx))
		}
		return readExit(cmd.ProcessState, &stdout, &stderr)
	}
}

// Kill ends the groups of all commands that still run, at once, and of those that
// start later. A program calls it last: what a hard stop could not wait for would
// outlive it.
func (c *Commands) Kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killed = true
	for p := range c.running {
		kill(p)
	}
}

func (c *Commands) add(p *os.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed { // it started while Kill was at work
		kill(p)
	}
	if c.running == nil {
		c.running = map[*os.Process]struct{}{}
	}
	c.running[p] = struct{}{}
}

func (c *Commands) remove(p *os.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, p)
}

// readExit decides. A command that a signal ended said its last word too early to
// be believed.
func readExit(state *os.ProcessState, stdout, stderr *tail) error {
	code := state.ExitCode() // -1: a signal
	if r, _, ok := parseReply(stdout.lastLine()); ok && code >= 0 {
		return r.result(fmt.Sprintf("answered %s (%s)", r.status, state))
	}
	text := stderr.text()
	if text == "" {
		text = state.String()
	}
	return result(statusOfExit(code), errors.New(text), 0, false)
}

func statusOfExit(code int) core.ResultStatus {
	switch code {
	case 0:
		return core.StatusSuccess
	case 65:
		return core.StatusFail
	case 76:
		return core.StatusDefer
	case 100:
		return core.StatusDiscard
	}
	return core.StatusRetry // 75 too
}

// tail keeps the last limit bytes written to it.
type tail struct {
	limit int
	bytes []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	// Cut at twice the limit only, so that a long output is not copied for each
	// write.
	if len(t.bytes) > 2*t.limit {
		t.bytes = append(t.bytes[:0], t.bytes[len(t.bytes)-t.limit:]...)
	}
	return len(p), nil
}

func (t *tail) last() []byte { return t.bytes[max(0, len(t.bytes)-t.limit):] }

// lastLine is the last line that is not empty.
func (t *tail) lastLine() []byte {
	text := bytes.TrimSpace(t.last())
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

func (t *tail) text() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(t.last()), "?"))
}
