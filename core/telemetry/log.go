package telemetry

import (
	"context"
	"log/slog"
	"time"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/internal/mask"
)

// LogListener writes a line for each finished job and for what people must know:
// job.done at debug, or at info for processes for which logSuccess says so (nil =
// none).
func LogListener(logger *slog.Logger, logSuccess func(process string) bool) core.Listener {
	if logSuccess == nil {
		logSuccess = func(string) bool { return false }
	}
	l := &logListener{logger, logSuccess}
	return l.log
}

// maxIDs bounds how many jobs a line names that are only news, not lost.
const maxIDs = 20

type logListener struct {
	logger     *slog.Logger
	logSuccess func(process string) bool
}

func (l *logListener) log(e *core.Event) {
	switch e.Kind {
	case core.EventFinished:
		l.finished(e)
	case core.EventTimedOut:
		l.line(slog.LevelWarn, "job.timeout", e)
	case core.EventStuck:
		l.line(slog.LevelError, "job.stuck", e, stack(e))
	case core.EventStuckReturned:
		l.line(slog.LevelInfo, "job.stuck_returned", e)
	case core.EventPanicked:
		l.line(slog.LevelError, "job.panicked", e, stack(e))
	case core.EventStale:
		l.line(slog.LevelWarn, "job.stale", e)
	case core.EventSuspect:
		l.line(slog.LevelWarn, "job.suspect", e, slog.Int("found", e.N))
	case core.EventSettleError:
		l.line(slog.LevelWarn, "settle.failed", e, slog.Int("tries", e.N))
	case core.EventRedelivered:
		l.line(slog.LevelWarn, "jobs.redelivered", e, slog.String("cause", e.Cause), slog.Int("jobs", e.N), slog.Any("ids", e.IDs[:min(len(e.IDs), maxIDs)]))
	case core.EventDeadOverflow: // all of them: nobody else will name these
		l.line(slog.LevelError, "dead_letter.overflow", e, slog.Int("jobs", e.N), slog.Any("ids", e.IDs))
	case core.EventStatus:
		l.status(e)
	}
}

func (l *logListener) finished(e *core.Event) {
	level, message := slog.LevelDebug, "job.done"
	switch e.Outcome {
	case core.OutcomeSuccess:
		if l.logSuccess(e.Process) {
			level = slog.LevelInfo
		}
	case core.OutcomeRequeued:
		level, message = slog.LevelWarn, "job.retry"
	case core.OutcomeDead:
		level, message = slog.LevelError, "job.dead"
	case core.OutcomeDiscarded:
		level, message = slog.LevelInfo, "job.discarded"
	case core.OutcomeDeferred:
		level, message = slog.LevelInfo, "job.deferred"
	case core.OutcomeReleased:
		level, message = slog.LevelInfo, "job.released"
	}
	if !l.logger.Enabled(context.Background(), level) {
		return
	}
	more := []slog.Attr{slog.String("outcome", string(e.Outcome)), slog.Float64("cost_ms", milliseconds(e.Cost))}
	if e.Next > 0 {
		more = append(more, slog.Int("next_attempt", e.Next))
	}
	if e.Outcome == core.OutcomeRequeued || e.Outcome == core.OutcomeDeferred {
		more = append(more, slog.Float64("delay_ms", milliseconds(e.Delay)))
	}
	l.line(level, message, e, more...)
}

func (l *logListener) status(e *core.Event) {
	switch {
	case e.Status.Ready && e.Status.Paused:
		l.line(slog.LevelInfo, "process.paused", e)
	case e.Status.Ready:
		l.line(slog.LevelInfo, "process.ready", e)
	default:
		l.line(slog.LevelWarn, "process.not_ready", e, slog.String("reason", mask.URL(e.Status.Reason)))
	}
}

// line writes where it happened, which job, what more is given, and the error
// and reason where there are any.
func (l *logListener) line(level slog.Level, message string, e *core.Event, more ...slog.Attr) {
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("process", e.Process), slog.String("transport", e.Transport), slog.String("queue", e.Queue))
	if e.Job != nil {
		attrs = append(attrs, slog.String("jobId", e.Job.ID), slog.String("jobType", e.Job.Type), slog.Int("attempt", e.Job.Attempt))
	} else if e.Kind == core.EventFinished && len(e.IDs) == 1 { // malformed: as `dlq ls` names it
		attrs = append(attrs, slog.String("jobId", e.IDs[0]))
	}
	attrs = append(attrs, more...)
	text := e.ErrText
	if text == "" && e.Err != nil {
		text = e.Err.Error()
	}
	if text != "" {
		attrs = append(attrs, slog.String("error", mask.URL(text)))
	}
	if e.Reason != "" {
		attrs = append(attrs, slog.String("reason", e.Reason))
	}
	l.logger.LogAttrs(context.Background(), level, message, attrs...)
}

func stack(e *core.Event) slog.Attr { return slog.String("stack", string(e.Stack)) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
