package processes

import (
	"bytes"
	"context"
	"errors"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/goconsumer/consumer/core"
)

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		os.Exit(childMain())
	}
	goleak.VerifyTestMain(m)
}

var errDown = errors.New("dial redis://:hush-hush@10.0.0.1:6379: connection refused")

func TestAProcessWhoseBrokerIsDownIsTriedForEverAndOthersWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Options{}, map[string]script{"up": works, "down": ends(errDown)}, Spec{Name: "up"}, Spec{Name: "down"})
		stop := h.start(t)
		time.Sleep(time.Hour)
		if s := h.state("up"); s.State != StateRunning || !s.Ready {
			t.Errorf("up is %+v", s)
		}
		s := h.state("down")
		if s.State != StateRetrying || s.Ready || s.Reason != "dial redis://:***@10.0.0.1:6379: connection refused" {
			t.Errorf("down is %+v", s)
		}
		// Waits of 5 s, with up to a fifth of jitter.
		if n := len(h.started("down")); n < 600 || n > 730 {
			t.Errorf("down was tried %d times in an hour", n)
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestAProcessWithoutHandlersSaysWhatWillHappen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHost(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, map[string]script{"p": works}, Spec{Name: "p"})
		stop := h.start(t)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if !strings.Contains(log.String(), "process.no_handlers process=p") {
			t.Errorf("the log is %s", log.String())
		}
	})
}

func TestAProcessIsReadyOnceAllItsReplicasAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := make(chan struct{})
		life := func(ctx context.Context, e *fakeEngine) error {
			if e.cfg.Binding.Replica == 1 {
				<-late
			}
			return works(ctx, e)
		}
		h := newHost(t, Options{}, map[string]script{"p": life}, Spec{Name: "p", Replicas: 3})
		stop := h.start(t)
		synctest.Wait()
		if s := h.state("p"); s.Ready || s.Running != 3 || s.Replicas != 3 {
			t.Errorf("before the last replica: %+v", s)
		}
		close(late)
		synctest.Wait()
		if s := h.state("p"); !s.Ready {
			t.Errorf("with all replicas: %+v", s)
		}
		gates := map[*core.Gate]bool{}
		for _, e := range h.started("p") {
			gates[e.cfg.Gate] = true
		}
		if len(gates) != 1 || h.made != 1 {
			t.Errorf("%d gates and %d drivers, want one of each", len(gates), h.made)
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if h.driver.opened != 3 || h.driver.closed != 3 {
			t.Errorf("%d publishers opened, %d closed", h.driver.opened, h.driver.closed)
		}
	})
}

func TestRunEndsWithTheExitCodeOfWhatHappened(t *testing.T) {
	t.Parallel()
	setup := &core.SetupError{Sentence: "queue q has other arguments; delete it"}
	unsettled := func(ctx context.Context, e *fakeEngine) error {
		_ = works(ctx, e)
		return &core.UnsettledError{IDs: []string{"job_1"}}
	}
	cases := map[string]struct {
		a, b   script
		asked  bool // needs a stop to end
		code   int
		states [2]State
	}{
		"all stopped as asked":                {works, works, true, ExitOK, [2]State{StateStopped, StateStopped}},
		"a job stayed unsettled":              {unsettled, works, true, ExitFailed, [2]State{StateStopped, StateStopped}},
		"a crash loop beside a good process":  {crashes, works, true, ExitFailed, [2]State{StateFailed, StateStopped}},
		"a setup fault beside a good process": {ends(setup), works, true, ExitOK, [2]State{StateFailed, StateStopped}},
		"setup faults everywhere":             {ends(setup), ends(setup), false, ExitConfig, [2]State{StateFailed, StateFailed}},
		"a setup fault and a crash loop":      {ends(setup), crashes, false, ExitFailed, [2]State{StateFailed, StateFailed}},
		"too many stuck handlers":             {ends(core.ErrTooManyStuck), ends(core.ErrTooManyStuck), false, ExitFailed, [2]State{StateFailed, StateFailed}},
		"a broker that is down":               {ends(errDown), works, true, ExitOK, [2]State{StateStopped, StateStopped}},
		"panics":                              {func(context.Context, *fakeEngine) error { panic("boom") }, works, true, ExitFailed, [2]State{StateFailed, StateStopped}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, Options{}, map[string]script{"a": c.a, "b": c.b}, Spec{Name: "a"}, Spec{Name: "b"})
				stop := h.start(t)
				time.Sleep(10 * time.Minute)
				if ended := !h.runs(); ended == c.asked {
					t.Errorf("ended by itself: %v", ended)
				}
				err := stop()
				if got := ExitCode(err); got != c.code {
					t.Errorf("exit code %d (%v), want %d", got, err, c.code)
				}
				if got := [2]State{h.state("a").State, h.state("b").State}; got != c.states {
					t.Errorf("states %v, want %v", got, c.states)
				}
			})
		})
	}
}

func TestARunThatIsStableForgetsItsCrashes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		life := func(ctx context.Context, e *fakeEngine) error {
			e.ready()
			time.Sleep(time.Minute)
			return errors.New("boom")
		}
		h := newHost(t, Options{}, map[string]script{"p": life}, Spec{Name: "p", Restart: Restart{Limit: 2}})
		stop := h.start(t)
		time.Sleep(time.Hour)
		if s := h.state("p"); s.State == StateFailed || s.Restarts < 50 {
			t.Errorf("after an hour of a crash a minute: %+v", s)
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestTheLastCrashNamesItsCauseAndCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Options{}, map[string]script{"p": crashes}, Spec{Name: "p", Restart: Restart{Limit: 3}})
		err := h.Run(t.Context())
		if want := "process p: stopped after 4 crashes in a row: boom"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if n := len(h.started("p")); n != 4 {
			t.Errorf("%d starts, want 4", n)
		}
	})
}

func TestPauseReachesRunningAndLaterEngines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		crash := make(chan struct{}, 1)
		life := func(ctx context.Context, e *fakeEngine) error {
			e.ready()
			select {
			case <-ctx.Done():
				return nil
			case <-crash:
				return errors.New("boom")
			}
		}
		h := newHost(t, Options{}, map[string]script{"p": life}, Spec{Name: "p"})
		stop := h.start(t)
		synctest.Wait()
		if _, unknown := errors.AsType[*UnknownProcessError](h.Pause(t.Context(), "q")); !unknown {
			t.Error("Pause must not know q")
		}
		if err := h.Pause(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		if s := h.state("p"); s.State != StatePaused || !s.Ready {
			t.Errorf("paused: %+v", s)
		}
		crash <- struct{}{}
		time.Sleep(time.Minute)
		if s := h.state("p"); s.State != StatePaused || s.Restarts != 1 {
			t.Errorf("paused and restarted: %+v", s)
		}
		if err := h.Resume(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
		if s := h.state("p"); s.State != StateRunning {
			t.Errorf("resumed: %+v", s)
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestGivingUpStopsTheHostAndAbortsOnlyWhatIsNotReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := func(ctx context.Context, e *fakeEngine) error {
			e.ready()
			time.Sleep(time.Minute)
			e.notReady("fetching from q does not work: EOF")
			<-e.aborted // a broker that is gone lets nothing drain
			return nil
		}
		h := newHost(t, Options{GiveUpAfter: 10 * time.Second}, map[string]script{"lost": lost, "good": works}, Spec{Name: "lost"}, Spec{Name: "good"})
		begin := time.Now()
		err := h.Run(t.Context())
		if ExitCode(err) != ExitUnreachable || err.Error() != "process lost: gave up after 10s: fetching from q does not work: EOF" {
			t.Errorf("got %v", err)
		}
		if d := time.Since(begin); d < 69*time.Second || d > 71*time.Second {
			t.Errorf("gave up after %v, want about 70 s", d)
		}
		select {
		case <-h.started("good")[0].aborted:
			t.Error("the good process was stopped hard")
		default:
		}
	})
}

func TestB49_AStopIsNeverIgnored(t *testing.T) {
	t.Parallel()
	t.Run("while the broker is down", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			connecting := func(ctx context.Context, e *fakeEngine) error {
				select {
				case <-ctx.Done():
				case <-time.After(30 * time.Second):
				}
				return errDown
			}
			h := newHost(t, Options{}, map[string]script{"in the wait": ends(errDown), "in the call": connecting}, Spec{Name: "in the wait"}, Spec{Name: "in the call"})
			stop := h.start(t)
			time.Sleep(time.Minute)
			begin := time.Now()
			if err := stop(); err != nil || time.Since(begin) > 0 {
				t.Errorf("stop took %v and gave %v", time.Since(begin), err)
			}
		})
	})
	t.Run("at any moment of the start", func(t *testing.T) {
		t.Parallel()
		for at := time.Duration(0); at <= 500*time.Millisecond; at += 20 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				slow := func(ctx context.Context, e *fakeEngine) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(250 * time.Millisecond):
						return works(ctx, e)
					}
				}
				h := newHost(t, Options{}, map[string]script{"p": slow}, Spec{Name: "p", Replicas: 2})
				stop := h.start(t)
				time.Sleep(at)
				begin := time.Now()
				if err := stop(); err != nil || time.Since(begin) > 0 {
					t.Errorf("at %v: stop took %v and gave %v", at, time.Since(begin), err)
				}
			})
		}
	})
	t.Run("before Run", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, Options{}, map[string]script{"p": works}, Spec{Name: "p"})
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := h.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
			h = newHost(t, Options{}, map[string]script{"p": works}, Spec{Name: "p"})
			h.Abort()
			if err := h.Run(t.Context()); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	})
	t.Run("when a handler is stuck, the second one is hard", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			stuck := func(ctx context.Context, e *fakeEngine) error {
				e.ready()
				<-ctx.Done()
				select {
				case <-e.aborted:
					return &core.UnsettledError{IDs: []string{"job_1"}}
				case <-time.After(e.cfg.ShutdownTimeout):
					return nil
				}
			}
			h := newHost(t, Options{}, map[string]script{"p": stuck}, Spec{Name: "p"})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- h.Run(ctx) }()
			synctest.Wait()
			cancel()
			time.Sleep(2 * time.Second)
			if s := h.state("p"); s.State != StateStopping || s.Ready {
				t.Errorf("draining: %+v", s)
			}
			begin := time.Now()
			h.Abort()
			h.Abort()
			err := <-done
			if time.Since(begin) > 0 || ExitCode(err) != ExitFailed {
				t.Errorf("abort took %v and gave %v", time.Since(begin), err)
			}
			if u, ok := errors.AsType[*core.UnsettledError](err); !ok || u.IDs[0] != "job_1" {
				t.Errorf("got %v, want the unsettled job by name", err)
			}
		})
	})
	t.Run("by a program of its own: no signal is captured here", func(t *testing.T) {
		t.Parallel()
		files, err := filepath.Glob("*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("source files: %v, %v", files, err)
		}
		for _, name := range files {
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if i.Path.Value == `"os/signal"` {
					t.Errorf("%s imports os/signal: signals are the program's", name)
				}
			}
		}
	})
}

func TestNewNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := New([]Spec{
		{Name: "a", Queue: "q", Transport: "t"},
		{Name: "a", Queue: "q", Transport: "t"},
		{Name: "b", Queue: "q", Transport: "none"},
		{Name: "c", Queue: "q", Transport: "odd"},
		{Name: "d", Queue: "q", Transport: "t", DeadLetter: DeadLetter{Driver: DeadRedisList, Transport: "nowhere"}},
		{Name: "e", Queue: "q", Transport: "t", Isolation: IsolationOS},
		{Name: "f", Queue: "q", Transport: "t", MemoryLimit: 1 << 20},
	}, Options{
		Endpoints: []Endpoint{{"t", "fake://h"}, {"odd", "odd://:hush-hush@h"}},
		Drivers:   map[string]DriverFunc{"fake": func(Endpoint) (core.Driver, error) { return &fakeDriver{}, nil }},
	})
	if ExitCode(err) != ExitConfig {
		t.Errorf("exit code %d, want %d", ExitCode(err), ExitConfig)
	}
	for _, want := range []string{"two processes named a", `no transport named "none"`, "no driver for odd://", `no transport named "nowhere"`, "isolation: goroutine", "need isolation: os"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "hush-hush") {
		t.Errorf("%q shows a password", err)
	}
}
