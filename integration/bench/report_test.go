package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestRatiosAreTakenWithinARepetition(t *testing.T) {
	t.Parallel()
	r := &report{Samples: []sample{
		{1, "drain noop c10", limit, values{"jobs_per_s": 100}}, {1, "drain noop c10", bare, values{"jobs_per_s": 90}},
		{2, "drain noop c10", bare, values{"jobs_per_s": 40}}, {2, "drain noop c10", limit, values{"jobs_per_s": 50}},
		{3, "drain noop c10", limit, values{"jobs_per_s": 10}}, {3, "drain noop c10", bare, values{"jobs_per_s": 7}},
	}}
	// The machine slows down from one repetition to the next; the ratios are 0.9, 0.8 and 0.7.
	if got, want := r.cell("drain noop c10", bare, "jobs_per_s"), "40 (0.8)"; got != want {
		t.Errorf("cell is %q, want %q", got, want)
	}
	if text := r.verdicts().Render(); !strings.Contains(text, "0.8") || !strings.Contains(text, "yes") {
		t.Errorf("no verdict yes for 0.8:\n%s", text)
	}
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		series []float64
		want   float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}} {
		if got := median(c.series); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.series, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("median of nothing is a number")
	}
}

func TestATargetIsMetOnTheRightSide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		atMost bool
		value  float64
		want   string
	}{{false, 2.5, "goal"}, {false, 1.5, "yes"}, {false, 0.5, "NO"}, {true, 0.5, "goal"}} {
		target := target{atMost: c.atMost, least: 1, goal: 2}
		if got := target.verdict(c.value); got != c.want {
			t.Errorf("verdict of %v (at most: %v) is %q, want %q", c.value, c.atMost, got, c.want)
		}
	}
}

func TestScaleKeepsSizesThatMeanSomething(t *testing.T) {
	t.Parallel()
	if got := shrink(100_000, 64, 0.01); got != 1000 {
		t.Errorf("100,000 by 0.01 is %d", got)
	}
	if got := shrink(64, 64, 0.01); got != 64 {
		t.Errorf("64 by 0.01 is %d, want the least", got)
	}
	if got := shrink(10*time.Second, time.Second, 0.01); got != time.Second {
		t.Errorf("10 s by 0.01 is %s, want the shortest", got)
	}
	if got := shrink(0, 64, 0.01); got != 0 {
		t.Errorf("nothing by 0.01 is %d", got)
	}
}

func TestEveryTargetIsMeasured(t *testing.T) {
	t.Parallel()
	does := map[[2]string]bool{}
	for _, r := range plan() {
		for _, c := range r.contenders {
			does[[2]string{r.Row, c}] = true
		}
	}
	for _, target := range targets() {
		if !does[[2]string{target.row, target.contender()}] {
			t.Errorf("target %q needs row %q of %q, which is not in the plan", target.what, target.row, target.contender())
		}
		if over := target.over; over != nil && !does[[2]string{over.row, over.who}] {
			t.Errorf("target %q divides by row %q of %q, which is not in the plan", target.what, over.row, over.who)
		}
	}
}
