package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

// server is a redis-server of our own on a free loopback port.
type server struct {
	addr string
	cmd  *exec.Cmd
	dir  string
}

// startServer starts redis-server without persistence and waits for its first
// answer.
func startServer(ctx context.Context) (*server, error) {
	dir, err := os.MkdirTemp("", "bench-redis-*")
	if err != nil {
		return nil, err
	}
	addr, port, err := freePort()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &server{addr: addr, dir: dir}
	s.cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir, "--daemonize", "no")
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start redis-server (make bench provides one): %w", err), os.RemoveAll(dir))
	}
	if err := s.awaitAnswer(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

func freePort() (addr, port string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	addr = listener.Addr().String()
	_, port, _ = net.SplitHostPort(addr)
	return addr, port, listener.Close()
}

func (s *server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	rdb := dial(s.addr)
	defer rdb.Close()
	for {
		err := rdb.Ping(ctx).Err()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redis-server on %s does not answer: %w", s.addr, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends the server and removes its directory.
func (s *server) stop() error {
	s.cmd.Process.Signal(os.Interrupt)
	s.cmd.Wait() // its exit code means nothing here
	return os.RemoveAll(s.dir)
}
