package processes

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goconsumer/consumer/core"
)

// setup is what a reload of h with other specs would bring.
func (h *host) setup(specs ...Spec) Setup {
	for i := range specs {
		specs[i].Transport, specs[i].Queue = "t", "q"
	}
	return Setup{Specs: specs, Endpoints: h.opts.Endpoints, Registry: core.NewRegistry()}
}

func TestAReloadTouchesOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		scripts := map[string]script{"same": works, "changed": works, "gone": works, "new": works}
		h := newHost(t, Options{}, scripts, Spec{Name: "same"}, Spec{Name: "changed"}, Spec{Name: "gone"})
		stop := h.start(t)
		synctest.Wait()
		changes, err := h.Reload(h.setup(Spec{Name: "new"}, Spec{Name: "same"}, Spec{Name: "changed", Concurrency: 3}))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(changes.Started, []string{"new"}) || !slices.Equal(changes.Restarted, []string{"changed"}) || !slices.Equal(changes.Stopped, []string{"gone"}) {
			t.Errorf("changes: %+v", changes)
		}
		synctest.Wait()
		for name, engines := range map[string]int{"same": 1, "changed": 2, "gone": 1, "new": 1} {
			if n := len(h.started(name)); n != engines {
				t.Errorf("%s had %d engines, want %d", name, n, engines)
			}
		}
		if c := h.started("changed")[1].cfg.Binding.Concurrency; c != 3 {
			t.Errorf("changed runs %d at once, want 3", c)
		}
		var names []string
		for _, s := range h.Status() {
			names = append(names, s.Name)
			if s.State != StateRunning {
				t.Errorf("%s is %s", s.Name, s.State)
			}
		}
		if !slices.Equal(names, []string{"new", "same", "changed"}) {
			t.Errorf("hosted: %v", names)
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestAReloadWithAFaultChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Options{}, map[string]script{"a": works, "b": works}, Spec{Name: "a"})
		stop := h.start(t)
		synctest.Wait()
		bad := h.setup(Spec{Name: "a", Concurrency: 9}, Spec{Name: "b"})
		bad.Specs[1].Transport = "none"
		if _, err := h.Reload(bad); ExitCode(err) != ExitConfig {
			t.Errorf("a faulty setup gave %v", err)
		}
		if n := len(h.started("a")); n != 1 || h.state("a").State != StateRunning {
			t.Errorf("a had %d engines and is %+v", n, h.state("a"))
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestAChangedEndpointRestartsItsProcessesAndClosesTheOldDriver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Options{}, map[string]script{"p": works}, Spec{Name: "p"})
		stop := h.start(t)
		synctest.Wait()
		next := h.setup(Spec{Name: "p"})
		next.Endpoints = []Endpoint{{Name: "t", URL: "fake://elsewhere"}}
		changes, err := h.Reload(next)
		synctest.Wait()
		if err != nil || len(changes.Restarted) != 1 || h.made != 2 || h.driver.ended != 1 {
			t.Errorf("%+v, %v: %d drivers made, %d closed", changes, err, h.made, h.driver.ended)
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
}

func TestAStoppedProcessStaysSoUntilItIsStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Options{GiveUpAfter: time.Minute}, map[string]script{"p": works}, Spec{Name: "p"})
		stop := h.start(t)
		synctest.Wait()
		if err := h.Stop("p"); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Reload(h.setup(Spec{Name: "p", Concurrency: 2})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // the host goes on without any process left
		if s := h.state("p"); s.State != StateStopped || s.Ready || len(h.started("p")) != 1 {
			t.Errorf("stopped: %+v", s)
		}
		if err := errors.Join(h.Start("p"), h.Start("p")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := h.state("p"); s.State != StateRunning || len(h.started("p")) != 2 {
			t.Errorf("started: %+v", s)
		}
		if c := h.started("p")[1].cfg.Binding.Concurrency; c != 2 {
			t.Errorf("it came back with concurrency %d, want the reloaded 2", c)
		}
		if err := h.Restart("p"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := h.state("p"); s.State != StateRunning || len(h.started("p")) != 3 || s.Finished != 30 {
			t.Errorf("restarted: %+v", s)
		}
		if _, unknown := errors.AsType[*UnknownProcessError](h.Restart("q")); !unknown {
			t.Error("q is not known and was restarted")
		}
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if err := h.Start("p"); !errors.Is(err, ErrStopping) {
			t.Errorf("a start after the end gave %v", err)
		}
	})
}

func TestAFailedProcessCanBeStartedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := true
		life := func(ctx context.Context, e *fakeEngine) error {
			if broken {
				return crashes(ctx, e)
			}
			return works(ctx, e)
		}
		h := newHost(t, Options{}, map[string]script{"p": life, "q": works}, Spec{Name: "p"}, Spec{Name: "q"})
		stop := h.start(t)
		time.Sleep(time.Hour)
		if s := h.state("p"); s.State != StateFailed {
			t.Fatalf("p is %+v", s)
		}
		broken = false
		if err := h.Start("p"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := h.state("p"); s.State != StateRunning {
			t.Errorf("p is %+v", s)
		}
		if err := stop(); err != nil { // its old failure was mended
			t.Errorf("stop: %v", err)
		}
	})
}

func TestAReplicaIsRecycledAtItsLimitsWithoutACrash(t *testing.T) {
	t.Parallel()
	finish := func(ctx context.Context, e *fakeEngine) error { // a job a second
		e.ready()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Second):
				for _, l := range e.cfg.Listeners {
					l(&core.Event{Kind: core.EventFinished, Outcome: core.OutcomeSuccess})
				}
			}
		}
	}
	for name, c := range map[string]struct {
		limits      Recycle
		least, most int // engines in 1000 s
	}{
		"jobs":  {Recycle{Jobs: 100}, 10, 11},
		"time":  {Recycle{After: 100 * time.Second}, 9, 11},
		"never": {Recycle{}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, Options{}, map[string]script{"p": finish}, Spec{Name: "p", Recycle: c.limits})
				stop := h.start(t)
				time.Sleep(1000*time.Second + time.Millisecond)
				if n := len(h.started("p")); n < c.least || n > c.most {
					t.Errorf("%d engines, want %d to %d", n, c.least, c.most)
				}
				if s := h.state("p"); s.Restarts != 0 || !s.Ready {
					t.Errorf("%+v", s)
				}
				if err := stop(); err != nil {
					t.Errorf("stop: %v", err)
				}
			})
		})
	}
}

func TestHooksAreCalledInTheOrderOfAProcesssLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var calls []string
		note := func(call string) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, call)
		}
		tries := 0
		hooks := Hooks{
			Init: func(_ context.Context, process string) error {
				note("init " + process)
				if tries++; tries == 1 {
					return errors.New("no database yet")
				}
				if tries == 2 {
					panic("boom")
				}
				return nil
			},
			Drain:     func(process string) { note("drain " + process); panic("boom") },
			Shutdown:  func(process string) { note("shutdown " + process) },
			Exception: func(process string, err error) { note("exception " + process + ": " + err.Error()) },
		}
		life := func(ctx context.Context, e *fakeEngine) error {
			note("run")
			defer note("end")
			return works(ctx, e)
		}
		h := newHost(t, Options{Hooks: hooks}, map[string]script{"p": life}, Spec{Name: "p"})
		stop := h.start(t)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		want := []string{
			"init p", "exception p: no database yet", "init p", "exception p: panicked: boom", "init p",
			"run", "drain p", "end", "shutdown p",
		}
		slices.Sort(calls[6:8]) // drain and end are side by side
		if !slices.Equal(calls, want) {
			t.Errorf("calls\n%q, want\n%q", calls, want)
		}
	})
}

func TestInitThatNeverWorksStopsItsProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"an error":      {errors.New("no database"), ExitFailed},
		"a setup fault": {&core.SetupError{Sentence: "set DATABASE_URL"}, ExitConfig},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hooks := Hooks{Init: func(context.Context, string) error { return c.err }}
				h := newHost(t, Options{Hooks: hooks}, map[string]script{"p": works}, Spec{Name: "p"})
				if err := h.Run(t.Context()); ExitCode(err) != c.code {
					t.Errorf("got %v", err)
				}
				if len(h.started("p")) != 0 {
					t.Error("it ran")
				}
			})
		})
	}
}
