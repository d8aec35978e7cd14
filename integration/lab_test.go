// Package integration drives the built binaries on real brokers and checks them
// from outside: its ledger, its counts and its view of Redis use nothing of the
// framework.
package integration

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	// The programs under test are built by a go command of their own: this makes
	// their code part of the test binary, so that no result is cached past a change.
	_ "github.com/goconsumer/consumer/cmd/consumer/cli"
	"github.com/goconsumer/consumer/internal/testredis"
)

// full is the acceptance size: `make acceptance`.
var full = os.Getenv("CONSUMER_ACCEPTANCE") == "full"

// sized is a size of the everyday run and of the acceptance run.
func sized(everyday, acceptance int) int {
	if full {
		return acceptance
	}
	return everyday
}

// binaries are the programs under test, built once, when first asked for.
var binaries struct {
	dir    string
	stock  func() (string, error) // cmd/consumer
	worker func() (string, error) // the worker of this directory
	faulty func() (string, error) // the worker with fault points
	host   func() (string, error) // a larger program with a worker inside
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "consumer-binaries-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	build := func(name, pkg string, flags ...string) func() (string, error) {
		return sync.OnceValues(func() (string, error) {
			out := filepath.Join(dir, name)
			args := append(append([]string{"build", "-o", out}, flags...), pkg)
			if text, err := exec.Command("go", args...).CombinedOutput(); err != nil {
				return "", fmt.Errorf("go build %s: %w: %s", pkg, err, text)
			}
			return out, nil
		})
	}
	binaries.stock = build("consumer", "../cmd/consumer")
	binaries.worker = build("worker", "./worker")
	binaries.host = build("host", "./host")
	binaries.faulty = build("worker-faults", "./worker", "-tags", "faults")
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// lab is one broker, one config and the ledger of one test.
type lab struct {
	t      *testing.T
	server *testredis.Server
	client *redis.Client
	config string
	ledger string
}

// newLab starts a Redis and writes the config. "REDIS" in it becomes the server's
// URL.
func newLab(t *testing.T, config string) *lab {
	t.Helper()
	server := testredis.Start(t)
	l := &lab{t: t, server: server, client: server.Client()}
	dir := t.TempDir()
	l.config, l.ledger = filepath.Join(dir, "consumer.yaml"), filepath.Join(dir, "ledger")
	l.configure(strings.ReplaceAll(config, "REDIS", server.URL()))
	return l
}

func (l *lab) configure(config string) {
	l.t.Helper()
	if err := os.WriteFile(l.config, []byte(config), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) readConfig() string {
	l.t.Helper()
	text, err := os.ReadFile(l.config)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(text)
}

// program is one running binary.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout lockedBuffer
	stderr lockedBuffer
	ended  chan struct{}
}

// start runs a binary with the lab's config and ledger; it is killed with the
// test.
func (l *lab) start(binary func() (string, error), env []string, args ...string) *program {
	l.t.Helper()
	return l.launch(nil, binary, env, args...)
}

// startInto is start for output that is not kept.
func (l *lab) startInto(stdout io.Writer, binary func() (string, error), args ...string) *program {
	l.t.Helper()
	return l.launch(stdout, binary, nil, args...)
}

func (l *lab) launch(stdout io.Writer, binary func() (string, error), env []string, args ...string) *program {
	l.t.Helper()
	path, err := binary()
	if err != nil {
		l.t.Fatal(err)
	}
	p := &program{t: l.t, ended: make(chan struct{})}
	p.cmd = exec.Command(path, append([]string{"--config", l.config}, args...)...)
	p.cmd.Env = append([]string{"LEDGER=" + l.ledger, "PATH=" + os.Getenv("PATH")}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if stdout != nil {
		p.cmd.Stdout = stdout
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		l.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	l.t.Cleanup(p.kill)
	return p
}

// run runs a binary to its end and returns its exit code and output.
func (l *lab) run(binary func() (string, error), args ...string) (code int, stdout, stderr string) {
	l.t.Helper()
	p := l.start(binary, nil, args...)
	code = p.wait(60 * time.Second)
	return code, p.stdout.String(), p.stderr.String()
}

func (p *program) signal(sig os.Signal) { _ = p.cmd.Process.Signal(sig) }

func (p *program) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// wait returns the exit code, -1 after a signal; the test fails when the program
// is still there after limit.
func (p *program) wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.kill()
		p.t.Fatalf("%s did not end within %s:\n%s", p.cmd, limit, p.stderr.tail())
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop asks a host for a soft stop, once it listens for signals, and wants exit
// code 0 within limit.
func (p *program) stop(limit time.Duration) {
	p.t.Helper()
	eventually(p.t, 10*time.Second, "the host has started", func() bool {
		return strings.Contains(p.stderr.String(), "host.start")
	})
	p.signal(syscall.SIGTERM)
	if code := p.wait(limit); code != 0 {
		p.t.Fatalf("%s ended with exit code %d after SIGTERM:\n%s", p.cmd, code, p.stderr.tail())
	}
}

// gone says whether the program has ended.
func (p *program) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// eventually polls until ok is true; the test fails with the text after limit.
func eventually(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// lockedBuffer collects output while others read it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// tail is the end of the output, for messages of failed tests.
func (b *lockedBuffer) tail() string {
	text := b.String()
	return text[max(0, len(text)-4000):]
}
