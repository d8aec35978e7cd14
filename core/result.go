package core

import (
	"errors"
	"time"
)

// ResultStatus is what a handler says about one run of a job.
type ResultStatus uint8

// What a handler can say.
const (
	StatusSuccess ResultStatus = iota
	StatusRetry
	StatusFail
	StatusDiscard
	StatusDefer
)

var statusWords = [...]string{"SUCCESS", "RETRY", "FAIL", "DISCARD", "DEFER"}

// String returns the word that HTTP and command handlers use.
func (s ResultStatus) String() string { return statusWords[s] }

// Result is a handler's answer. A handler returns nil for success, or an error
// made by Retry, RetryAfter, Fail, Discard, Defer or DeferAfter; any other error
// counts as Retry. A Result may be wrapped: errors.As finds it, and the text of
// the whole chain is what people see.
type Result struct {
	Status   ResultStatus
	Delay    time.Duration
	HasDelay bool  // false: the policy's delay
	Err      error // the cause; may be nil
}

// Error returns the cause's text, or the status in lower case without one.
func (r *Result) Error() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return [...]string{"success", "retry", "fail", "discard", "defer"}[r.Status]
}

func (r *Result) Unwrap() error { return r.Err }

// Retry asks for another attempt after the policy's delay. It is what a plain
// error means too.
func Retry(cause error) error { return &Result{Status: StatusRetry, Err: cause} }

// RetryAfter asks for another attempt after exactly d (floor 0), which is
// neither capped nor jittered.
func RetryAfter(d time.Duration, cause error) error {
	return &Result{Status: StatusRetry, Delay: max(d, 0), HasDelay: true, Err: cause}
}

// Fail gives the job up: it becomes a dead letter with reason failed.
func Fail(cause error) error { return &Result{Status: StatusFail, Err: cause} }

// Discard drops the job without a dead letter.
func Discard(cause error) error { return &Result{Status: StatusDiscard, Err: cause} }

// Defer asks for the job again after the policy's delay without charging an
// attempt: rate limits, circuit breakers, "not yet".
func Defer(cause error) error { return &Result{Status: StatusDefer, Err: cause} }

// DeferAfter is Defer with a delay of its own (floor 0).
func DeferAfter(d time.Duration, cause error) error {
	return &Result{Status: StatusDefer, Delay: max(d, 0), HasDelay: true, Err: cause}
}

// ResultOf reads what a handler returned.
func ResultOf(err error) Result {
	if err == nil {
		return Result{Status: StatusSuccess}
	}
	var r *Result
	if errors.As(err, &r) {
		out := *r
		if r.Err != nil {
			out.Err = err
		}
		return out
	}
	return Result{Status: StatusRetry, Err: err}
}

// Outcome is how a run ended for the job.
type Outcome string

// The outcomes, in the words of logs and metrics.
const (
	OutcomeSuccess   Outcome = "success"
	OutcomeRequeued  Outcome = "requeued"
	OutcomeDead      Outcome = "dead"
	OutcomeDiscarded Outcome = "discarded"
	OutcomeDeferred  Outcome = "deferred"
	OutcomeReleased  Outcome = "released"
)
