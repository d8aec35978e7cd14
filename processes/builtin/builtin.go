// Package builtin holds the handlers of the stock binary: an HTTP endpoint, a
// command, a log line. All three are plain core.Handlers.
package builtin

import (
	"context"
	"log/slog"
	"strings"
	"unicode"

	"github.com/goconsumer/consumer/core"
)

// Log is a handler that writes one line for each job, without its payload, and
// always succeeds.
func Log(logger *slog.Logger) core.Handler {
	return func(ctx context.Context, job *core.Job) error {
		logger.InfoContext(ctx, "job.received", "jobId", job.ID, "jobType", job.Type, "attempt", job.Attempt)
		return nil
	}
}

// printable makes a text from the wire fit for a header or an environment
// variable: control characters, line ends and zero bytes become question marks.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, text)
}
