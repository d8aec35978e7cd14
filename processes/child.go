package processes

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Child is how a program starts itself as the child OS process of one replica. The
// child calls Connect on its standard input and on descriptor 3, hosts the replica
// in a goroutine, and writes its log lines to descriptor 4.
type Child struct {
	Path  string
	Args  []string  // without the program's name
	Env   []string  // nil = this process's
	Setup []byte    // what Link.Setup returns in the child
	Log   io.Writer // gets the child's log lines, whole and one a call
}

// ChildFunc makes the child of a replica.
type ChildFunc func(s Spec, replica int) (Child, error)

// killMargin is what a child gets beyond its shutdown_timeout before it is killed:
// enough for a hard stop and for the last settlements.
const (
	killMargin  = 10 * time.Second
	abortMargin = 2 * time.Second
	outputWait  = time.Second // for output that others than the child hold open
)

// vanishedError is a child OS process that ended without a word.
type vanishedError struct {
	worked bool // jobs ran, one of which may be why, or had been finished
	text   string
}

func (e *vanishedError) Error() string { return e.text }

// child is the engine of a replica that runs in an OS process of its own. It is
// used for one Run.
type child struct {
	spec   Spec
	config Child
	watch  core.Listener
	relay  func(*core.Event)
	full   func()
	output *outputLog

	aborting chan struct{}
	abort    sync.Once
	orders   chan order // to the writer; the setup is its first
	pid      atomic.Int64

	mu     sync.Mutex
	paused bool // as ordered
	status childStatus
	busy   bool
	end    *childEnd
	killed string // why this side killed it
}

var _ engine = (*child)(nil)

// newChild makes the engine of a replica. watch gets EventStatus and EventFinished,
// relay every fact that the child passes on; full is called when the child passed
// recycle.memory.
func newChild(spec Spec, config Child, watch core.Listener, relay func(*core.Event), full func(), output *outputLog) *child {
	c := &child{
		spec: spec, config: config, watch: watch, relay: relay, full: full, output: output,
		aborting: make(chan struct{}), orders: make(chan order, 64),
	}
	c.order(order{Op: opSetup, Setup: config.Setup})
	return c
}

// Run starts the OS process and returns when it has ended.
func (c *child) Run(ctx context.Context) error {
	cmd, pipes, err := c.start()
	if err != nil {
		return fmt.Errorf("start a child process: %w", err)
	}
	c.output.logger.Info("child.started", "pid", cmd.Process.Pid)
	var readers sync.WaitGroup
	readers.Go(func() { c.readReports(pipes.reports) })
	readers.Go(func() { copyLines(c.config.Log, pipes.log) })
	ended := make(chan struct{})
	readers.Go(func() { c.writeOrders(pipes.orders, ended) })
	readers.Go(func() { c.watchMemory(cmd.Process, ended) })
	go func() {
		err = cmd.Wait()
		c.pid.Store(0)
		close(ended)
	}()
	c.await(ctx, cmd.Process, ended)
	pipes.close(&readers)
	c.output.flush()
	return c.verdict(err)
}

// await stops the child as asked and returns once it has ended.
func (c *child) await(ctx context.Context, process *os.Process, ended <-chan struct{}) {
	asked, aborting := ctx.Done(), c.aborting
	patience := time.NewTimer(time.Hour)
	patience.Stop()
	for {
		select {
		case <-ended:
			return
		case <-asked:
			asked = nil
			c.order(order{Op: opStop})
			patience.Reset(c.spec.ShutdownTimeout + killMargin)
		case <-aborting:
			aborting = nil
			c.order(order{Op: opAbort})
			patience.Reset(abortMargin)
		case <-patience.C:
			c.kill(process, "did not stop in time and was killed")
		}
	}
}

// start runs the program with its pipes.
func (c *child) start() (*exec.Cmd, *childPipes, error) {
	cmd := exec.Command(c.config.Path, c.config.Args...)
	cmd.Env = c.config.Env
	cmd.Stdout, cmd.Stderr = c.output.stream("stdout"), c.output.stream("stderr")
	cmd.WaitDelay = outputWait
	pipes, err := openPipes(cmd)
	if err != nil {
		return nil, nil, err
	}
	apart(cmd)
	if err := cmd.Start(); err != nil {
		pipes.closeAll()
		return nil, nil, err
	}
	pipes.started()
	c.pid.Store(int64(cmd.Process.Pid))
	return cmd, pipes, nil
}

// order tells the child something. One that does not listen is killed in the end.
func (c *child) order(o order) {
	select {
	case c.orders <- o:
	default:
	}
}

// writeOrders passes the orders on until the child has ended.
func (c *child) writeOrders(pipe io.Writer, ended <-chan struct{}) {
	out := gob.NewEncoder(pipe)
	for {
		select {
		case <-ended:
			return
		case o := <-c.orders:
			if out.Encode(&o) != nil {
				return // it has ended
			}
		}
	}
}

// kill ends the child; why is what Run's error says.
func (c *child) kill(process *os.Process, why string) {
	c.mu.Lock()
	c.killed = why
	c.mu.Unlock()
	_ = process.Kill() // it may have ended meanwhile
}

// verdict is what Run returns, from what the child said last and how it ended.
func (c *child) verdict(exit error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	worked := c.busy || c.status.Finished > 0
	switch {
	case c.end != nil:
		return c.end.err(c.spec.Name)
	case c.killed != "":
		return &vanishedError{worked, "the child process " + c.killed}
	case c.output.fatal() != "":
		return &vanishedError{worked, "the child process ended: " + c.output.fatal()}
	case exit != nil:
		return &vanishedError{worked, "the child process ended: " + exit.Error()}
	}
	return &vanishedError{worked, "the child process ended without a reason"}
}

// readReports takes in what the child tells until it has ended.
func (c *child) readReports(reports io.Reader) {
	in := gob.NewDecoder(reports)
	for {
		var r report
		if err := in.Decode(&r); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, io.ErrUnexpectedEOF) {
				c.output.logger.Error("child.report_unreadable", "error", err)
			}
			return
		}
		c.take(&r)
	}
}

func (c *child) take(r *report) {
	c.mu.Lock()
	before := c.state()
	if r.Status != nil {
		c.status = *r.Status
		c.busy = r.Status.Running > 0
	}
	c.busy = c.busy || r.Busy
	if r.End != nil {
		c.end = r.End
	}
	now := c.state()
	c.mu.Unlock()
	if now != before {
		c.watch(&core.Event{Kind: core.EventStatus, Status: now})
	}
	for i := range r.Events {
		e := &r.Events[i]
		event := &core.Event{Kind: e.Kind, Type: e.Type, Outcome: e.Outcome, Reason: e.Reason, Cause: e.Cause, Cost: e.Cost, Wait: e.Wait, N: e.N}
		c.watch(event)
		c.relay(event)
	}
}

// state is the child's health. mu is held.
func (c *child) state() core.Status {
	return core.Status{Ready: c.status.Ready, Paused: c.status.Paused, Reason: c.status.Reason}
}

// Status is the child's last word.
func (c *child) Status() core.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status == (childStatus{}) {
		return core.Status{Reason: "the child process is starting"}
	}
	return c.state()
}

// Abort makes the stop hard: the child gives its jobs back at once.
func (c *child) Abort() { c.abort.Do(func() { close(c.aborting) }) }

// Pause stops the child from fetching.
func (c *child) Pause() { c.setPaused(true, opPause) }

// Resume undoes Pause.
func (c *child) Resume() { c.setPaused(false, opResume) }

func (c *child) setPaused(paused bool, o op) {
	c.mu.Lock()
	changed := c.paused != paused
	c.paused = paused
	c.mu.Unlock()
	if changed {
		c.order(order{Op: o})
	}
}

func (c *child) count() childStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Running is how many handlers ran at the child's last word.
func (c *child) Running() int { return c.count().Running }

// Stuck is how many handlers were stuck then.
func (c *child) Stuck() int { return c.count().Stuck }

// Finished is how many deliveries had left the child then.
func (c *child) Finished() int64 { return c.count().Finished }
