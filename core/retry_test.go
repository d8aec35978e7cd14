package core

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestB41_DelaysSaturateInsteadOfOverflowing(t *testing.T) {
	t.Parallel()
	attempts := []int{-5, 0, 1, 31, 32, 37, 62, 63, 64, 1000, math.MaxInt}
	for _, shape := range []RetryType{RetryExponential, RetryLinear, RetryFixed} {
		for _, base := range []time.Duration{time.Millisecond, time.Second, time.Minute, time.Hour} {
			for _, multiplier := range []float64{1, 1.5, 2, 3, 10} {
				for _, limit := range []time.Duration{time.Hour, math.MaxInt64} {
					policy := RetryPolicy{Type: shape, MaxAttempts: 5, BaseDelay: base, Multiplier: multiplier, MaxDelay: limit}
					t.Run(fmt.Sprint(shape, base, multiplier, limit), func(t *testing.T) {
						t.Parallel()
						checkDelays(t, policy, nil, attempts)
						checkDelays(t, policy, &Backoff{shape, base}, attempts)
					})
				}
			}
		}
	}
}

// checkDelays: above 0, never past the cap and its jitter, and without jitter
// never shorter than for a lower attempt.
func checkDelays(t *testing.T, p RetryPolicy, own *Backoff, attempts []int) {
	t.Helper()
	previous := time.Duration(0)
	for _, n := range attempts {
		p.Jitter = 0
		plain := p.Delay(n, own, 0.999)
		if plain <= 0 || plain > p.MaxDelay || plain < previous {
			t.Errorf("attempt %d: %v after %v", n, plain, previous)
		}
		previous = plain
		for _, p.Jitter = range []float64{0, 0.2, 1} {
			for _, random := range []float64{0, 0.5, 0.999} {
				got := p.Delay(n, own, random)
				most := float64(plain) * (1 + p.Jitter)
				if got < plain || float64(got) > most {
					t.Errorf("attempt %d, jitter %v, random %v: %v is not from %v to %v", n, p.Jitter, random, got, plain, most)
				}
			}
		}
	}
}

func TestDelayFollowsItsShape(t *testing.T) {
	t.Parallel()
	const s = time.Second
	policy := RetryPolicy{BaseDelay: 2 * s, Multiplier: 3, MaxDelay: 40 * s, Jitter: 0.5}
	for _, c := range []struct {
		shape RetryType
		own   *Backoff
		want  []time.Duration
	}{
		{RetryExponential, nil, []time.Duration{2 * s, 6 * s, 18 * s, 40 * s}},
		{RetryLinear, nil, []time.Duration{2 * s, 4 * s, 6 * s, 8 * s}},
		{RetryFixed, nil, []time.Duration{2 * s, 2 * s, 2 * s, 2 * s}},
		// A job's own backoff: exponential doubles whatever the policy's multiplier is.
		{RetryFixed, &Backoff{RetryExponential, 10 * s}, []time.Duration{10 * s, 20 * s, 40 * s, 40 * s}},
		{RetryExponential, &Backoff{RetryLinear, 15 * s}, []time.Duration{15 * s, 30 * s, 40 * s, 40 * s}},
		{RetryExponential, &Backoff{RetryFixed, 50 * s}, []time.Duration{40 * s, 40 * s, 40 * s, 40 * s}},
		{RetryExponential, &Backoff{RetryFixed, 0}, []time.Duration{0, 0, 0, 0}},
	} {
		policy.Type = c.shape
		for i, want := range c.want {
			if got := policy.Delay(i+1, c.own, 0); got != want {
				t.Errorf("%s, own %v, attempt %d: %v, want %v", c.shape, c.own, i+1, got, want)
			}
			if got := policy.Delay(i+1, c.own, 0.5); got != want+want/4 {
				t.Errorf("%s, own %v, attempt %d with jitter: %v, want %v", c.shape, c.own, i+1, got, want+want/4)
			}
		}
	}
}

func TestDelayOfABrokenPolicyIsHarmless(t *testing.T) {
	t.Parallel()
	for _, p := range []RetryPolicy{
		{},
		{BaseDelay: -time.Second, MaxDelay: time.Hour, Multiplier: 2},
		{BaseDelay: time.Second, MaxDelay: -time.Hour, Multiplier: 2},
		{BaseDelay: time.Second, MaxDelay: time.Hour, Multiplier: math.NaN(), Jitter: math.NaN()},
		{BaseDelay: time.Second, MaxDelay: time.Hour, Multiplier: math.Inf(1), Jitter: -1},
		{BaseDelay: time.Second, MaxDelay: time.Hour, Multiplier: 0.1, Jitter: math.Inf(1)},
	} {
		for _, n := range []int{1, 2, 100} {
			for _, random := range []float64{0, 0.5, 7, math.NaN()} {
				if got := p.Delay(n, nil, random); got < 0 || p.BaseDelay > 0 && p.MaxDelay > 0 && got < time.Second {
					t.Errorf("%+v: %v after attempt %d", p, got, n)
				}
			}
		}
	}
}

func TestAttemptsIsTheSmallerLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ policy, job, want int }{{5, 0, 5}, {5, 3, 3}, {5, 9, 5}, {0, 0, 1}, {-1, 7, 1}, {5, 1, 1}} {
		if got := (RetryPolicy{MaxAttempts: c.policy}).Attempts(&Job{MaxAttempts: c.job}); got != c.want {
			t.Errorf("policy %d, job %d: %d, want %d", c.policy, c.job, got, c.want)
		}
	}
}

func TestDefaultsFillOnlyWhatMeansNothing(t *testing.T) {
	t.Parallel()
	if got := (RetryPolicy{}).WithDefaults(); got != DefaultRetryPolicy() {
		t.Errorf("got %+v", got)
	}
	if got := (RetryPolicy{BaseDelay: time.Second}).WithDefaults(); got.MaxAttempts != 5 || got.Jitter != 0 {
		t.Errorf("got %+v", got)
	}
	got := RetryPolicy{MaxAttempts: 3}.WithDefaults()
	want := RetryPolicy{Type: RetryExponential, MaxAttempts: 3, Multiplier: 2, MaxDelay: 5 * time.Minute}
	if got != want || got.Validate() != nil {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestValidateNamesEveryFaultyField(t *testing.T) {
	t.Parallel()
	if err := DefaultRetryPolicy().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	err := RetryPolicy{Type: "cubic", MaxAttempts: -1, BaseDelay: -time.Second, Multiplier: math.NaN(), Jitter: -0.1}.Validate()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got %v", err)
	}
	var fields []string
	for _, fault := range joined.Unwrap() {
		field, _, _ := strings.Cut(fault.Error(), " must ")
		fields = append(fields, field)
	}
	if want := []string{"type", "max_attempts", "base_delay", "multiplier", "max_delay", "jitter"}; !slices.Equal(fields, want) {
		t.Errorf("faults in %q, want %q", fields, want)
	}
}
