package deadletter

import (
	"context"
	"log/slog"

	"github.com/goconsumer/consumer/core"
)

// LogOnly is a sink that keeps nothing but a log line: the one stated exception
// to "nothing is lost". Payloads stay out of the log.
type LogOnly struct{ logger *slog.Logger }

var _ core.DeadSink = (*LogOnly)(nil)

// NewLogOnly makes the sink and warns of what it does.
func NewLogOnly(logger *slog.Logger, process string) *LogOnly {
	logger.Warn("dead letters of this process are only logged: a job that fails for good is lost (dead_letter.driver: log_only)", "process", process)
	return &LogOnly{logger: logger}
}

// Store logs the records.
func (l *LogOnly) Store(ctx context.Context, records []*core.DeadRecord) []error {
	for _, r := range records {
		id, jobType := "", ""
		if r.Job != nil {
			id, jobType = r.Job.ID, r.Job.Type
		}
		l.logger.ErrorContext(ctx, "dead letter dropped by log_only", "process", r.Process, "queue", r.Queue,
			"jobId", id, "jobType", jobType, "reason", r.Reason, "error", CutError(r.Error))
	}
	return nil
}
