package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/deadletter"
)

// dlqFilter are the filter flags that every dlq verb has.
type dlqFilter struct {
	process string
	jobType string
	reason  string
	err     string
	since   string
	until   string
	id      string
	limit   int
}

func (f *dlqFilter) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.process, "process", "", "the process whose dead letters these are")
	flags.StringVar(&f.jobType, "type", "", "only jobs of this type or pattern (* is any run of characters)")
	flags.StringVar(&f.reason, "reason", "", "only dead letters with this reason, e.g. failed")
	flags.StringVar(&f.err, "error", "", "only dead letters whose error contains this text")
	flags.StringVar(&f.since, "since", "", "only dead letters not older than this: 1h, or an RFC 3339 time")
	flags.StringVar(&f.until, "until", "", "only dead letters at least this old: 1h, or an RFC 3339 time")
	flags.StringVar(&f.id, "id", "", "only the job with this id")
	flags.IntVar(&f.limit, "limit", 0, "at most this many (0 = all)")
}

// filter is what the flags choose.
func (f *dlqFilter) filter() (deadletter.Filter, error) {
	now := time.Now()
	since, err := parseTime("since", f.since, now)
	if err != nil {
		return deadletter.Filter{}, err
	}
	until, err := parseTime("until", f.until, now)
	if err != nil {
		return deadletter.Filter{}, err
	}
	if f.limit < 0 {
		return deadletter.Filter{}, usageErrorf("--limit=%d is negative", f.limit)
	}
	return deadletter.Filter{
		Type: f.jobType, Reason: f.reason, Error: f.err, Since: since, Until: until, ID: f.id, Limit: f.limit,
	}, nil
}

// parseTime reads a duration before now or an RFC 3339 time; "" is no time.
func parseTime(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usageErrorf("--%s=%s is neither a duration like 1h nor an RFC 3339 time like 2026-07-12T15:30:00Z", flag, text)
	}
	return at, nil
}
