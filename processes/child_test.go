package processes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
)

// childMark makes the test binary a child OS process.
const childMark = "PROCESSES_TEST_CHILD"

// childMain is such a child: a replica on a broker in its own memory, with as many
// jobs as the setup says; "exit" ends it while a job runs, "idle exit" before that.
func childMain() int {
	link, err := Connect(os.Stdin, os.NewFile(3, "reports"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	setup := string(link.Setup())
	switch setup {
	case "idle exit":
		return 3
	case "refuse":
		link.Refuse(&core.SetupError{Sentence: "this child is not set up"})
		return 1
	}
	n, err := strconv.Atoi(setup)
	if err != nil {
		n = 1
	}
	broker := drivertest.NewMemory(drivertest.Republishing())
	for i := range n {
		broker.Push("q", fmt.Appendf(nil, `{"jobId":"job_%d","jobType":"t","payload":{}}`, i))
	}
	registry := core.NewRegistry()
	err = registry.Handle("t", func(context.Context, *core.Job) error {
		if setup == "exit" {
			fmt.Println("a job ends this process")
			os.Exit(3)
		}
		return nil
	})
	if err != nil {
		return 2
	}
	log := slog.New(slog.NewTextHandler(os.NewFile(4, "log"), nil))
	m, err := New([]Spec{{Name: "p", Transport: "m", Queue: "q"}}, Options{
		Endpoints: []Endpoint{{Name: "m", URL: "memory://"}},
		Drivers:   map[string]DriverFunc{"memory": func(Endpoint) (core.Driver, error) { return broker.Open(), nil }},
		Registry:  registry, Listeners: []core.Listener{link.Listener()}, Logger: log, FirstReplica: 1,
	})
	if err != nil {
		link.Refuse(err)
		return 1
	}
	if link.Serve(context.Background(), m) != nil {
		return 1
	}
	return 0
}

// parent hosts one process whose only replica is such a child.
type parent struct {
	*Manager
	log lockedText

	mu      sync.Mutex
	relayed map[core.EventKind]int
}

type lockedText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newParent(t *testing.T, setup string, change ...func(*Spec)) *parent {
	t.Helper()
	p := &parent{relayed: map[core.EventKind]int{}}
	spec := Spec{Name: "p", Transport: "m", Queue: "q", Isolation: IsolationOS, Restart: Restart{Initial: time.Millisecond, Max: 5 * time.Millisecond, Limit: 2}}
	for _, c := range change {
		c(&spec)
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.Manager, err = New([]Spec{spec}, Options{
		Endpoints: []Endpoint{{Name: "m", URL: "memory://"}},
		Drivers:   map[string]DriverFunc{"memory": func(Endpoint) (core.Driver, error) { return nil, errors.ErrUnsupported }},
		Logger:    slog.New(slog.NewTextHandler(&p.log, nil)),
		Child: func(Spec, int) (Child, error) {
			return Child{Path: path, Args: []string{"child"}, Env: append(os.Environ(), childMark+"=1"), Setup: []byte(setup), Log: &p.log}, nil
		},
		Relayed: []core.Listener{func(e *core.Event) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.relayed[e.Kind]++
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start runs the host; stop ends it and gives Run's error.
func (p *parent) start(t *testing.T) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() { cancel(); err = <-done })
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestAChildReportsWhatItDoesAndObeys(t *testing.T) {
	t.Parallel()
	p := newParent(t, "200")
	stop := p.start(t)
	eventually(t, "all jobs are reported", func() bool { return p.Status()[0].Finished == 200 })
	if s := p.Status()[0]; !s.Ready || s.State != StateRunning || len(s.PIDs) != 1 || s.PIDs[0] == os.Getpid() {
		t.Errorf("it is %+v", s)
	}
	p.pauseReplicas(true)
	eventually(t, "it is paused", func() bool { s := p.Status()[0]; return s.State == StatePaused && s.Ready })
	p.pauseReplicas(false)
	eventually(t, "it works again", func() bool { return p.Status()[0].State == StateRunning })
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if n := p.relayed[core.EventFinished]; n != 200 || p.relayed[core.EventStarted] != 200 {
		t.Errorf("relayed %v", p.relayed)
	}
	if s := p.Status()[0]; s.Restarts != 0 || len(s.PIDs) != 0 || s.Finished != 200 {
		t.Errorf("stopped, it is %+v", s)
	}
}

func TestAChildThatEndsWithoutAJobIsACrashLoop(t *testing.T) {
	t.Parallel()
	err := newParent(t, "idle exit").Run(t.Context())
	if loop, ok := errors.AsType[*CrashLoopError](err); !ok || loop.Crashes != 3 || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %v", err)
	}
}

func TestAChildThatEndsWhileAJobRunsIsTheJobsMatter(t *testing.T) {
	t.Parallel()
	p := newParent(t, "exit")
	stop := p.start(t)
	eventually(t, "it was started more often than a crash loop allows", func() bool { return p.Status()[0].Restarts > 4 })
	if s := p.Status()[0]; s.State == StateFailed {
		t.Errorf("it is %+v", s)
	}
	_ = stop() // it may be hit at any moment
	if !strings.Contains(p.log.String(), `msg=child.output process=p transport=m queue=q replica=0 stream=stdout line="a job ends this process"`) {
		t.Errorf("what it printed is not in the log:\n%s", p.log.String())
	}
}

func TestAChildsSetupFaultIsFinal(t *testing.T) {
	t.Parallel()
	err := newParent(t, "refuse").Run(t.Context())
	if ExitCode(err) != ExitConfig || !strings.Contains(err.Error(), "this child is not set up") {
		t.Errorf("got %v", err)
	}
}

func TestAnAbortEndsAChildAtOnce(t *testing.T) {
	t.Parallel()
	p := newParent(t, "0")
	stop := p.start(t)
	eventually(t, "it works", func() bool { return p.Status()[0].Ready })
	begin := time.Now()
	p.Abort()
	if err := stop(); err != nil || time.Since(begin) > 2*time.Second {
		t.Errorf("the abort took %v and gave %v", time.Since(begin), err)
	}
}

func TestOnlyCrashesByItselfCountTowardsTheLimit(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	idle, busy := &vanishedError{text: "gone"}, &vanishedError{worked: true, text: "gone"}
	var row streak
	for i, step := range []struct {
		stable, up bool
		err        error
		want       streak
	}{
		{false, false, boom, streak{misses: 1}},
		{false, false, boom, streak{misses: 2}},
		{false, true, boom, streak{crashes: 1, falls: 1}},
		{false, false, idle, streak{crashes: 2, falls: 2}},
		{false, true, busy, streak{crashes: 2, falls: 3}},
		{false, false, &panicError{"boom"}, streak{crashes: 3, falls: 4}},
		{true, true, busy, streak{falls: 1}},
		{true, true, boom, streak{crashes: 1, falls: 1}},
	} {
		if row.add(step.stable, step.up, step.err); row != step.want {
			t.Errorf("step %d: %+v, want %+v", i, row, step.want)
		}
	}
}

func TestOutputIsLoggedByTheLine(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	o := newOutputLog(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})))
	out, err := o.stream("stdout"), o.stream("stderr")
	for _, part := range []string{"on", "e\r\ntwo\n\nthr", "ee\n", strings.Repeat("x", maxLine), "y\n", "redis://:hush-hush@h"} {
		if _, err := io.WriteString(out, part); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(err, "panic: no\nfatal error: runtime: out of memory\n"); err != nil {
		t.Fatal(err)
	}
	o.flush()
	want := []string{
		`stream=stdout line=one`, `stream=stdout line=two`, `stream=stdout line=three`,
		`stream=stdout line=` + strings.Repeat("x", maxLine), `stream=stdout line=y`,
		`stream=stderr line="panic: no"`, `stream=stderr line="fatal error: runtime: out of memory"`,
		`stream=stdout line=redis://:***@h`,
	}
	if got := strings.TrimSpace(text.String()); got != "msg=child.output "+strings.Join(want, "\nmsg=child.output ") {
		t.Errorf("got\n%s", got)
	}
	if o.fatal() != "fatal error: runtime: out of memory" {
		t.Errorf("fatal is %q", o.fatal())
	}
}

func TestAChildWhoseParentIsGoneStopsHardAndGivesItsJobsBack(t *testing.T) {
	t.Parallel()
	orders, parentEnd := io.Pipe()
	go func() { _ = newSender[order](parentEnd).send(&order{Op: opSetup, Setup: []byte("s")}) }()
	link, err := Connect(orders, io.Discard)
	if err != nil || string(link.Setup()) != "s" {
		t.Fatalf("setup %q, %v", link.Setup(), err)
	}
	broker := drivertest.NewMemory(drivertest.Republishing())
	broker.Push("q", []byte(`{"jobId":"job_1","jobType":"t","payload":{}}`))
	running := make(chan struct{})
	registry := core.NewRegistry()
	err = registry.Handle("t", func(ctx context.Context, _ *core.Job) error {
		close(running)
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	m, err := New([]Spec{{Name: "p", Transport: "m", Queue: "q", ShutdownTimeout: time.Hour}}, Options{
		Endpoints: []Endpoint{{Name: "m", URL: "memory://"}},
		Drivers:   map[string]DriverFunc{"memory": func(Endpoint) (core.Driver, error) { return broker.Open(), nil }},
		Registry:  registry, Listeners: []core.Listener{link.Listener()}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- link.Serve(ctx, m) }()
	<-running
	begin := time.Now()
	parentEnd.Close()
	if err := <-served; err != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("it ended after %v with %v", time.Since(begin), err)
	}
	if held := broker.Held("q"); len(held.Ready) != 1 {
		t.Errorf("the broker holds %+v", held)
	}
}
