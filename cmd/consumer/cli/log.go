package cli

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/term"
)

// openLog makes the logger of --log-format and --log-level: lines on stderr.
func (p *program) openLog() error {
	goredis.SetLogger(silent{})
	if p.logWriter == nil {
		p.logWriter = &serialWriter{w: p.process.Stderr}
	}
	var level slog.Level
	switch p.logLevel {
	case "debug", "info", "warn", "error":
		if err := level.UnmarshalText([]byte(p.logLevel)); err != nil {
			return err
		}
	default:
		return usageErrorf("--log-level=%s is none of debug, info, warn, error", p.logLevel)
	}
	options := &slog.HandlerOptions{Level: level}
	format := p.logFormat
	if format == "auto" {
		format = "json"
		if isTerminal(p.process.Stderr) {
			format = "text"
		}
		p.logFormat = format // children log alike
	}
	switch format {
	case "json":
		p.logger = slog.New(slog.NewJSONHandler(p.logWriter, options))
	case "text":
		p.logger = slog.New(slog.NewTextHandler(p.logWriter, options))
	default:
		return usageErrorf("--log-format=%s is none of auto, json, text", p.logFormat)
	}
	return nil
}

// serialWriter lets the lines of several writers through one at a time.
type serialWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write passes p on.
func (s *serialWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// silent takes the lines that go-redis would print beside our own: the driver
// reports the same faults as errors.
type silent struct{}

// Printf prints nothing.
func (silent) Printf(context.Context, string, ...any) {}

// isTerminal says whether a person is at the other end of a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
