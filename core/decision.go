package core

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Decision is what the runner concludes about one delivery. The engine hands it
// to the transport as a Settlement.
type Decision struct {
	Verdict Verdict
	Outcome Outcome
	Reason  string // of a dead letter; "expired" when the deadline had passed
	Error   string // what a dead letter and the log say
	Next    *Job   // the next envelope of a retry or a deferral
	Delay   time.Duration
}

// Policy holds the rules by which results become decisions. It decides and does
// nothing else: no clock but now, no broker, no goroutine.
type Policy struct {
	Retry             RetryPolicy
	MaxCrashes        int
	MaxDefers         int
	RetryUnregistered bool

	retryTypes patternTable[RetryPolicy] // see RetryFor
}

// RetryFor adds a retry policy for the job types that match pattern, with the
// registry's precedence and its refusal of ties.
func (p *Policy) RetryFor(pattern string, retry RetryPolicy) error {
	return p.retryTypes.add(pattern, retry)
}

// retryFor is the retry policy of a job type.
func (p *Policy) retryFor(jobType string) RetryPolicy {
	if own, _, ok := p.retryTypes.find(jobType); ok {
		return own
	}
	return p.Retry
}

// MaxAttempts is what an envelope of a job type has when it says nothing itself.
func (p *Policy) MaxAttempts(jobType string) int { return p.retryFor(jobType).MaxAttempts }

// Before decides what needs no handler: a job that was charged with too many
// crashes or has expired. ok is false when the job is to be run.
func (p *Policy) Before(job *Job, now time.Time) (d Decision, ok bool) {
	if job.Meta.Crashes() > p.MaxCrashes {
		return dead(ReasonCrashed, fmt.Sprintf("its worker vanished %d times while it ran alone", job.Meta.Crashes())), true
	}
	if deadline, set := job.Meta.Deadline(); set && now.After(deadline) {
		return Decision{Verdict: VerdictDone, Outcome: OutcomeDiscarded, Reason: "expired", Error: "deadline passed"}, true
	}
	return Decision{}, false
}

// Unregistered decides about a job whose type has no handler here.
func (p *Policy) Unregistered(job *Job) Decision {
	text := "unregistered jobType: " + job.Type
	if p.RetryUnregistered && job.Meta.Deferred() < p.MaxDefers {
		return p.deferred(job, Result{Status: StatusDefer}, text)
	}
	return dead(ReasonUnregistered, text)
}

// After decides what a handler's result means.
func (p *Policy) After(job *Job, r Result) Decision {
	text := CutText(r.Error(), maxErrorBytes)
	switch r.Status {
	case StatusSuccess:
		return Decision{Verdict: VerdictDone, Outcome: OutcomeSuccess}
	case StatusDiscard:
		return Decision{Verdict: VerdictDone, Outcome: OutcomeDiscarded, Error: text}
	case StatusFail:
		return dead(ReasonFailed, text)
	case StatusDefer:
		if job.Meta.Deferred() < p.MaxDefers {
			return p.deferred(job, r, text)
		}
	}
	return p.retried(job, r, text)
}

func (p *Policy) retried(job *Job, r Result, text string) Decision {
	retry := p.retryFor(job.Type)
	if job.Attempt >= retry.Attempts(job) {
		return dead(ReasonExhausted, text)
	}
	next := *job
	next.Attempt++
	if job.Format != FormatDelayQueue { // which has no place for it
		next.Meta.SetLastError(text)
	}
	return Decision{
		Verdict: VerdictRetry, Outcome: OutcomeRequeued, Error: text, Next: &next,
		Delay: delayOf(r, retry, job.Attempt, job),
	}
}

func (p *Policy) deferred(job *Job, r Result, text string) Decision {
	n := job.Meta.Deferred() + 1
	next := *job
	next.Meta.setCount("deferred", n)
	return Decision{
		Verdict: VerdictDefer, Outcome: OutcomeDeferred, Error: text, Next: &next,
		Delay: delayOf(r, p.retryFor(job.Type), n, job),
	}
}

// delayOf is the handler's own delay if it gave one, else the policy's.
func delayOf(r Result, retry RetryPolicy, n int, job *Job) time.Duration {
	if r.HasDelay {
		return r.Delay
	}
	return retry.Delay(n, job.Meta.Backoff(), rand.Float64())
}

// maxErrorBytes bounds what a handler's error may add to a dead letter.
const maxErrorBytes = 4096

func dead(reason, text string) Decision {
	return Decision{Verdict: VerdictDead, Outcome: OutcomeDead, Reason: reason, Error: CutText(text, maxErrorBytes)}
}

// released gives a job back as it is.
func released() Decision {
	return Decision{Verdict: VerdictRelease, Outcome: OutcomeReleased}
}
