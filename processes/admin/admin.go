// Package admin serves a host's health and metrics over HTTP.
//
//	GET /livez    200 while the program works; 503 when only a restart helps
//	GET /readyz   200 when every hosted process is ready, else 503; JSON says which
//	GET /metrics  Prometheus text format
//
//	GET  /api/v1/processes              every process
//	GET  /api/v1/processes/NAME         one
//	POST /api/v1/processes/NAME/VERB    start, stop, restart, pause, resume; answers when it is done
//
// The first three need no token. Everything else does where one is set.
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes"
)

// closeTimeout is how long answers under way may take when the server stops.
const closeTimeout = 5 * time.Second

// Config is where and for whom the admin server answers.
type Config struct {
	Listen  string       // host:port
	Token   string       // bearer token for everything but health and metrics; may be empty on loopback only
	Metrics http.Handler // for /metrics; nil = 404
	Logger  *slog.Logger // default slog.Default()
}

// Host is what the server reports on and steers; *processes.Manager is one.
type Host interface {
	Status() []processes.ProcessStatus
	Start(name string) error
	Stop(name string) error
	Restart(name string) error
	Pause(ctx context.Context, name string) error
	Resume(ctx context.Context, name string) error
}

var _ Host = (*processes.Manager)(nil)

// Server answers on the admin address.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen checks cfg and binds its address. An address that reaches beyond
// loopback without a token, or that can't be bound, is a *core.SetupError.
func Listen(cfg Config, host Host) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Token == "" && !Loopback(cfg.Listen) {
		return nil, &core.SetupError{Sentence: "admin address " + cfg.Listen + " can be reached from other machines and has no token; " +
			"set admin.token or listen on 127.0.0.1"}
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, &core.SetupError{Sentence: fmt.Sprintf("admin address %s can't be used (%v); set admin.listen to another one", cfg.Listen, bindReason(err)), Err: err}
	}
	return &Server{
		listener: listener,
		http: &http.Server{
			Handler:           newHandler(cfg, host),
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       30 * time.Second,
			WriteTimeout:      30 * time.Second,
			IdleTimeout:       time.Minute,
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
		},
	}, nil
}

func bindReason(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return e.Err
	}
	return err
}

// Loopback tells whether an address can be reached from this machine only.
func Loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && (host == "localhost" || net.ParseIP(host).IsLoopback())
}

// Addr is the address it is bound to.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve answers until ctx ends and returns when the last answer is out (5 s at
// most). It may be called once.
func (s *Server) Serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve admin address: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(closing)
	if err != nil {
		_ = s.http.Close()
	}
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

func newHandler(cfg Config, host Host) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answerLive(w, host.Status()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answerReady(w, host.Status()) })
	if cfg.Metrics != nil {
		mux.Handle("GET /metrics", cfg.Metrics)
	}
	inner := http.NewServeMux()
	addProcesses(inner, host)
	inner.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, "there is nothing at "+r.URL.Path)
	})
	mux.Handle("/", requireToken(cfg.Token, sameOrigin(cfg, inner)))
	return guard(cfg.Logger, mux)
}

// sameOrigin keeps web pages of others from steering a host by way of a browser on
// its machine: requests that come from another origin change nothing, and without a
// token the name in the request must be a loopback one, or any page could make its
// own name point here.
func sameOrigin(cfg Config, next http.Handler) http.Handler {
	protected := http.NewCrossOriginProtection()
	protected.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem(w, http.StatusForbidden, "a page of another origin may not do this")
	}))
	inner := protected.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if cfg.Token == "" && !Loopback(r.Host) && !Loopback(r.Host+":80") {
			problem(w, http.StatusForbidden, "without a token this host answers to loopback names only, such as 127.0.0.1")
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// requireToken lets only requests with the bearer token through; "" lets all.
func requireToken(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	// Hashes have one length, so comparing them tells nothing about the token's.
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(given)))
		if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="consumer"`)
			problem(w, http.StatusUnauthorized, "send the admin token as Authorization: Bearer …")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guard keeps a panic of a callback to its own request.
func guard(logger *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				logger.Error("admin.panicked", "path", r.URL.Path, "panic", processes.MaskURL(fmt.Sprint(v)))
				problem(w, http.StatusInternalServerError, "the host could not answer")
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// problem writes an RFC 9457 answer.
func problem(w http.ResponseWriter, code int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, code, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", http.StatusText(code), code, detail})
}

func write(w http.ResponseWriter, code int, body any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(body) // a client that went away needs no answer
}
