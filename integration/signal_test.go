package integration

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestB49_ASignalWhileTheBrokerIsDownEndsTheWorker(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	l.server.Stop()
	p := l.start(binaries.worker, nil, "run", "--process=play")
	eventually(t, 10*time.Second, "the worker says that its broker is away", func() bool {
		return strings.Contains(p.stderr.String(), "refused")
	})
	p.stop(2 * time.Second)
}

func TestB49_ASignalAtAnyMomentOfTheStartEndsTheWorker(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	push(t, l.client, "play", "play.job", 200, func(int) string { return `{"ms":20}` })
	for delay := time.Duration(0); delay <= 500*time.Millisecond; delay += 20 * time.Millisecond {
		p := l.start(binaries.worker, nil, "run", "--process=play")
		<-time.After(delay)
		p.signal(syscall.SIGTERM)
		// Before the Go runtime is up the kernel's default action answers: -1.
		if code := p.wait(3 * time.Second); code != 0 && code != -1 {
			t.Errorf("SIGTERM after %s: exit code %d:\n%s", delay, code, p.stderr.tail())
		}
		if h := holds(t, l.client, "play"); len(h.processing) > 0 {
			t.Errorf("SIGTERM after %s: %d jobs left in flight", delay, len(h.processing))
		}
	}
}

func TestB49_ASecondSignalEndsAWorkerWithAStuckHandlerAtOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		signal os.Signal
		code   int
	}{{syscall.SIGTERM, 143}, {syscall.SIGINT, 130}} {
		t.Run(c.signal.String(), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, strings.NewReplacer("REPLICAS", "1", "handler_timeout: 2s", "handler_timeout: 60s").Replace(playConfig))
			published := push(t, l.client, "play", "play.job", 1, func(int) string { return `{"do":["HANG"]}` })
			p := l.start(binaries.worker, nil, "run", "--process=play")
			eventually(t, 10*time.Second, "the handler runs", func() bool { return len(l.readLedger()) == 1 })
			p.signal(syscall.SIGTERM)
			<-time.After(time.Second)
			if p.gone() {
				t.Fatalf("the worker did not wait for its handler:\n%s", p.stderr.tail())
			}
			p.signal(c.signal)
			if code := p.wait(time.Second); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			h := holds(t, l.client, "play")
			sameIDs(t, "jobs left with the broker", slices.Concat(h.ready, h.processing), published)
		})
	}
}

func TestB49_TwoSignalsAtOnceAreOneExit(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	push(t, l.client, "play", "play.job", 100, func(int) string { return `{"ms":20}` })
	for range 10 {
		before := len(l.readLedger())
		p := l.start(binaries.worker, nil, "run", "--process=play")
		eventually(t, 10*time.Second, "the worker is at work", func() bool {
			return len(l.readLedger()) > before || before == 100
		})
		p.signal(syscall.SIGINT)
		p.signal(syscall.SIGTERM)
		if code := p.wait(3 * time.Second); !slices.Contains([]int{0, 130, 143}, code) {
			t.Errorf("exit code %d", code)
		}
		if text := p.stderr.String(); strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") {
			t.Errorf("the output has a stack:\n%s", text)
		}
		l.awaitIdle("play")
	}
}

func TestB49_AHostGetsItsSignalsBackAfterItsWorkerEnded(t *testing.T) {
	t.Parallel()
	l := newPlay(t, "1")
	p := l.start(binaries.host, nil, "run", "--process=play")
	eventually(t, 10*time.Second, "the worker has started", func() bool {
		return strings.Contains(p.stderr.String(), "host.start")
	})
	if _, err := p.stdin.Write([]byte("end\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the worker has ended and the host goes on", func() bool {
		return strings.Contains(p.stdout.String(), "worker ended: 0")
	})
	p.signal(syscall.SIGTERM)
	p.wait(2 * time.Second)
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("the host ended with %v, want the default action of SIGTERM", p.cmd.ProcessState)
	}
}

// awaitIdle waits until no dead worker's jobs are left in a processing list, by
// the leases that ran out or the releases that were confirmed.
func (l *lab) awaitIdle(queue string) {
	l.t.Helper()
	eventually(l.t, 5*time.Second, "nothing is in flight", func() bool {
		return len(holds(l.t, l.client, queue).processing) == 0
	})
}
