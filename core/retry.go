package core

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// RetryType is the shape of a backoff.
type RetryType string

// The shapes; the formulas are RetryPolicy.Delay's.
const (
	RetryExponential RetryType = "exponential"
	RetryFixed       RetryType = "fixed"
	RetryLinear      RetryType = "linear"
)

func (t RetryType) valid() bool {
	return t == RetryExponential || t == RetryFixed || t == RetryLinear
}

// RetryPolicy says how often and when a job is tried again. The zero policy
// means DefaultRetryPolicy; to change some fields only, start from that.
type RetryPolicy struct {
	Type        RetryType     // "" = exponential
	MaxAttempts int           // runs of a job in all; 0 = 5
	BaseDelay   time.Duration // before the second attempt; 0 = at once
	Multiplier  float64       // of exponential; at least 1; 0 = 2
	MaxDelay    time.Duration // cap before jitter; 0 = 5 min
	Jitter      float64       // adds up to this share of the delay; 0 = none
}

// DefaultRetryPolicy is exponential, 5 attempts, 1 s · 2ⁿ⁻¹ up to 5 min, jitter 0.2.
func DefaultRetryPolicy() RetryPolicy {
	return RetryPolicy{Type: RetryExponential, MaxAttempts: 5, BaseDelay: time.Second, Multiplier: 2, MaxDelay: 5 * time.Minute, Jitter: 0.2}
}

// WithDefaults returns DefaultRetryPolicy for the zero policy. In any other it
// fills the fields whose zero means nothing; BaseDelay and Jitter stay.
func (p RetryPolicy) WithDefaults() RetryPolicy {
	d := DefaultRetryPolicy()
	if p == (RetryPolicy{}) {
		return d
	}
	if p.Type == "" {
		p.Type = d.Type
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = d.MaxAttempts
	}
	if p.Multiplier == 0 {
		p.Multiplier = d.Multiplier
	}
	if p.MaxDelay == 0 {
		p.MaxDelay = d.MaxDelay
	}
	return p
}

// Validate returns every fault of the policy, joined, each a sentence that begins
// with the field's name in a configuration file. Call WithDefaults first where
// zero fields are meant to be filled.
func (p RetryPolicy) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf(format, args...))
	}
	if !p.Type.valid() {
		fault("type must be exponential, fixed or linear, not %q", p.Type)
	}
	if p.MaxAttempts < 1 {
		fault("max_attempts must be at least 1, not %d", p.MaxAttempts)
	}
	if p.BaseDelay < 0 {
		fault("base_delay must not be negative (0s tries again at once), not %v", p.BaseDelay)
	}
	if !(p.Multiplier >= 1) || math.IsInf(p.Multiplier, 0) {
		fault("multiplier must be a number from 1, not %v", p.Multiplier)
	}
	if p.MaxDelay <= 0 {
		fault("max_delay must be above 0 (for no delay set base_delay to 0s), not %v", p.MaxDelay)
	}
	if !(p.Jitter >= 0) || math.IsInf(p.Jitter, 0) {
		fault("jitter must be a number from 0 (0.2 adds up to a fifth), not %v", p.Jitter)
	}
	return errors.Join(faults...)
}

// Attempts is the smaller of the policy's and the job's limit, at least 1.
func (p RetryPolicy) Attempts(j *Job) int {
	limit := max(p.MaxAttempts, 1)
	if j.MaxAttempts > 0 {
		limit = min(limit, j.MaxAttempts)
	}
	return limit
}

// Delay is the wait before attempt n+1 (n from 1): BaseDelay·Multiplierⁿ⁻¹ when
// exponential, BaseDelay·n when linear, BaseDelay when fixed, at most MaxDelay,
// and then up to Jitter of that more, where random in [0,1) says how much. A job's
// own backoff (nil = none) takes the place of type and base; its exponential
// doubles. It saturates: 0 ≤ delay ≤ MaxDelay·(1+Jitter), for any n and any policy.
func (p RetryPolicy) Delay(n int, own *Backoff, random float64) time.Duration {
	shape, base, multiplier := p.Type, p.BaseDelay, p.Multiplier
	if own != nil {
		shape, base, multiplier = own.Type, own.Delay, 2
	}
	if base <= 0 || p.MaxDelay <= 0 {
		return 0
	}
	delay := float64(base)
	switch steps := float64(max(n, 1)); shape {
	case RetryFixed:
	case RetryLinear:
		delay *= steps
	default:
		if multiplier > 1 { // lower ones, and NaN, would shrink the delay to nothing
			delay *= math.Pow(multiplier, steps-1)
		}
	}
	delay = min(delay, float64(p.MaxDelay))
	if p.Jitter > 0 && random > 0 {
		delay += delay * p.Jitter * min(random, 1)
	}
	return time.Duration(saturate(math.Round(delay)))
}
