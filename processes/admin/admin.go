// Package admin serves a host's health and metrics over HTTP.
package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/goconsumer/consumer/processes"
)

// Config is where and for whom the admin server answers.
type Config struct {
	Listen  string       // host:port
	Token   string       // bearer token for everything but health and metrics; may be empty on loopback only
	Metrics http.Handler // for /metrics; nil = 404
	Logger  *slog.Logger // default slog.Default()
}

// Host is what the server reports on; *processes.Manager is one.
type Host interface {
	Status() []processes.ProcessStatus
}

var _ Host = (*processes.Manager)(nil)

// Server answers on the admin address.
type Server struct{ listener net.Listener }

// Listen checks cfg and binds its address. An address that reaches beyond
// loopback without a token, or that is taken, is a *core.SetupError.
func Listen(cfg Config, host Host) (*Server, error) { return &Server{}, nil }

// Addr is the address it is bound to.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve answers until ctx ends and returns when the last answer is out (5 s at
// most).
func (s *Server) Serve(ctx context.Context) error { <-ctx.Done(); return nil }
