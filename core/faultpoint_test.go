//go:build faults

package core_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
	"github.com/goconsumer/consumer/internal/fault"
)

// sceneOf names the environment variable with the shape of the broker on which
// TestFaultScene plays; without it that test has nothing to do.
const sceneOf = "CONSUMER_FAULT_SCENE"

// playScene runs TestFaultScene in a process of its own, with a fault script.
func playScene(t *testing.T, shape drivertest.Shape, script string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaultScene$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), sceneOf+"="+shape.Name, "CONSUMER_FAULTS="+script)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestFaultsAtEveryEnginePointLoseNothing(t *testing.T) {
	t.Parallel()
	for _, p := range fault.Points() {
		if !strings.HasPrefix(string(p), "engine.") {
			continue
		}
		for _, shape := range []drivertest.Shape{drivertest.Republishing(), drivertest.Lanes()} {
			for _, action := range []string{"fail@1", "fail@1-3", "stall=3s@1-2"} {
				script := string(p) + "=" + action
				t.Run(shape.Name+" "+script, func(t *testing.T) {
					t.Parallel()
					out, err := playScene(t, shape, script)
					if err != nil {
						t.Errorf("%v\n%s", err, out)
					}
					if !strings.Contains(out, "fault: "+string(p)) {
						t.Errorf("the point was never passed:\n%s", out)
					}
				})
			}
		}
	}
}

func TestFaultKillsAtEveryEnginePoint(t *testing.T) {
	t.Parallel()
	for _, p := range fault.Points() {
		if !strings.HasPrefix(string(p), "engine.") {
			continue
		}
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			out, err := playScene(t, drivertest.Republishing(), string(p)+"=kill@1")
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Errorf("the process ended with %v, want SIGKILL\n%s", err, out)
			}
		})
	}
}

// TestFaultScene is what the tests above play in a process of its own: jobs of
// every outcome, a suspect among them, and a dead-letter place apart.
func TestFaultScene(t *testing.T) {
	for _, shape := range drivertest.Shapes() {
		if shape.Name == os.Getenv(sceneOf) {
			onBroker(t, shape, faultScene)
		}
	}
}

func faultScene(s *stage) {
	s.foundTwice("suspect")
	s.pushJobs(10, "good", "good")
	s.pushJobs(5, "busy", "busy")
	s.pushJobs(3, "bad", "bad")
	s.push("no JSON")
	place := &sink{}
	e := s.start(map[string]core.Handler{
		"suspect": work(10 * time.Millisecond),
		"good":    work(10 * time.Millisecond),
		"busy": func(_ context.Context, j *core.Job) error {
			if j.Attempt == 1 {
				return errBusy
			}
			return nil
		},
		"bad": func(context.Context, *core.Job) error { return core.Fail(errBusy) },
	}, func(c *core.EngineConfig) { c.DeadSink = place })
	s.pass(5 * time.Minute)
	if err := e.drain(); err != nil {
		s.Errorf("stop: %v", err)
	}

	ended := map[string]bool{}
	for _, ev := range s.events(core.EventFinished) {
		if ev.Outcome == core.OutcomeSuccess || ev.Outcome == core.OutcomeDead {
			ended[eventID(ev)] = true
		}
	}
	s.want("jobs that ended", len(ended), 1+10+5+3+1)
	s.want("messages left", s.m.Held(queue).Waiting(), 0)
	dead := map[string]bool{}
	for _, r := range place.records {
		if r.Job != nil {
			dead[r.Job.ID] = true
		} else {
			dead[string(r.Raw)] = true
		}
	}
	for _, id := range []string{"bad-0", "bad-1", "bad-2", "no JSON"} {
		if !dead[id] {
			s.Errorf("%s is not among the dead letters", id)
		}
	}
}

// eventID names the job of an event; what is no envelope has none.
func eventID(ev core.Event) string {
	if ev.Job == nil {
		return "malformed"
	}
	return ev.Job.ID
}
