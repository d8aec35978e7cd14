// Package testredis runs real Redis servers for tests: each on a free loopback
// port, in a directory of its own, ended with its test.
package testredis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startLimit bounds the wait for a server's first answer.
const startLimit = 20 * time.Second

// Server is one redis-server process.
type Server struct {
	Addr string // host:port

	t    testing.TB
	args []string
	dir  string

	mu   sync.Mutex
	cmd  *exec.Cmd
	log  *bytes.Buffer
	wait chan struct{} // closed when cmd has ended
}

// Start runs a server without persistence; args are added to its command line,
// e.g. "--appendonly", "yes", "--appendfsync", "always". Without redis-server in
// PATH the test is skipped, or fails where CONSUMER_REQUIRE_BROKERS names redis.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		required := strings.FieldsFunc(os.Getenv("CONSUMER_REQUIRE_BROKERS"), func(r rune) bool { return r == ',' || r == ' ' })
		if slices.Contains(required, "redis") {
			t.Fatal("redis-server is not in PATH: install Debian's redis-server or run make test, which provides it")
		}
		t.Skip("redis-server is not in PATH: install Debian's redis-server or run make test, which provides it")
	}
	s := &Server{t: t, args: args, dir: t.TempDir()}
	t.Cleanup(s.Kill)
	// Another program may take the free port before the server does.
	var err error
	for range 5 {
		s.Addr = freeAddr(t)
		if err = s.run(); err == nil {
			return s
		}
		s.Kill()
	}
	t.Fatalf("start redis-server: %v", err)
	return nil
}

// URL is the server as a transport's URL.
func (s *Server) URL() string { return "redis://" + s.Addr + "/0" }

// Client opens a client that is closed with the test.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	s.t.Cleanup(func() { client.Close() })
	return client
}

// Stop asks the server to end (SIGTERM) and waits for it.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

// Kill ends the server at once (SIGKILL) and waits for it.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Pause stops the server's process (SIGSTOP): connections stay, answers don't
// come.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

// Restart starts an ended server again, at the same address and with what it
// had stored on disk.
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.run(); err != nil {
		s.t.Fatalf("restart redis-server: %v", err)
	}
}

func (s *Server) run() error {
	_, port, _ := net.SplitHostPort(s.Addr)
	args := append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", s.dir, "--daemonize", "no"}, s.args...)
	cmd, log, wait := exec.Command("redis-server", args...), &bytes.Buffer{}, make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.cmd, s.log, s.wait = cmd, log, wait
	s.mu.Unlock()
	go func() {
		cmd.Wait()
		close(wait)
	}()
	return s.awaitPong(wait, log)
}

// awaitPong polls until the server answers, its process ends or time is up.
func (s *Server) awaitPong(ended <-chan struct{}, log *bytes.Buffer) error {
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	for {
		// A plain dial first: the client would log its failures.
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			conn.Close()
			err = client.Ping(ctx).Err()
		}
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("the server ended: %s", log)
		case <-ctx.Done():
			return fmt.Errorf("no answer within %s: %w", startLimit, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		s.cmd.Process.Signal(sig)
	}
}

func (s *Server) end(sig syscall.Signal) {
	s.mu.Lock()
	wait := s.wait
	s.mu.Unlock()
	if wait == nil {
		return
	}
	s.signal(syscall.SIGCONT)
	s.signal(sig)
	<-wait
}

func freeAddr(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
