package main

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"time"
)

// Names of the contenders that targets speak of.
const (
	limit = "raw batch"
	bare  = "consumer"
	full  = "consumer, all on"
)

// row is one measurement done by several contenders on the same work.
type row struct {
	trial
	contenders []string
}

// plan is every row at full size.
func plan() []row {
	everyone := []string{limit, "raw move", bare}
	return []row{
		{trial{Row: "drain noop c10", Kind: "drain", Jobs: 100_000, Concurrency: 10}, everyone},
		{trial{Row: "drain noop c64", Kind: "drain", Jobs: 100_000, Concurrency: 64}, append(slices.Clone(everyone), full)},
		{trial{Row: "drain io5ms c64", Kind: "drain", Jobs: 20_000, Concurrency: 64, Sleep: 5 * time.Millisecond}, everyone},
		{trial{Row: "drain 1M noop c64", Kind: "drain", Jobs: 1_000_000, Concurrency: 64}, []string{limit, bare}},
		{trial{Row: "latency", Kind: "latency", Jobs: 800, Concurrency: 10}, everyone},
		{trial{Row: "retry 100ms", Kind: "retry", Jobs: 64, Concurrency: 64}, []string{bare}},
		{trial{Row: "idle 10s", Kind: "idle", Concurrency: 10, Over: 10 * time.Second}, []string{bare}},
		{trial{Row: "enqueue 64", Kind: "enqueue", Jobs: 128_000, Batch: 64}, []string{limit, bare}},
		{trial{Row: "enqueue 1", Kind: "enqueue", Jobs: 20_000, Batch: 1}, []string{limit, bare}},
		{trial{Row: "promote 100k due", Kind: "promote", Jobs: 100_000, Concurrency: 64}, []string{bare}},
		{trial{Row: "10k due in 10s", Kind: "lateness", Jobs: 10_000, Concurrency: 64, Over: 10 * time.Second}, []string{bare}},
	}
}

// selected takes the rows and contenders whose names match.
func selected(rows []row, match, who *regexp.Regexp) []row {
	var out []row
	for _, r := range rows {
		r.contenders = slices.DeleteFunc(slices.Clone(r.contenders), func(name string) bool { return !who.MatchString(name) })
		if match.MatchString(r.Row) && len(r.contenders) > 0 {
			out = append(out, r)
		}
	}
	return out
}

// scaled changes the sizes of rows.
func scaled(rows []row, scale float64) []row {
	const (
		fewestJobs  = 64
		shortestRun = time.Second
	)
	for i := range rows {
		rows[i].Jobs = shrink(rows[i].Jobs, fewestJobs, scale)
		rows[i].Over = shrink(rows[i].Over, shortestRun, scale)
	}
	return rows
}

// shrink scales n, but not below least, unless n is.
func shrink[T int | time.Duration](n, least T, scale float64) T {
	return max(T(float64(n)*scale), min(n, least))
}

// target is what a measured value should reach.
type target struct {
	what   string
	row    string
	who    string
	value  string
	over   *divisor // nil: the value itself counts
	atMost bool     // smaller is better
	least  float64  // what lands; infinite: only the goal counts
	goal   float64
}

// divisor is the value of the same repetition that a target's value is divided by.
type divisor struct{ row, who string }

func targets() []target {
	toLimit := func(row string) *divisor { return &divisor{row, limit} }
	const (
		c10, c64, io5, million = "drain noop c10", "drain noop c64", "drain io5ms c64", "drain 1M noop c64"
		retries, due, quiet    = "retry 100ms", "10k due in 10s", "idle 10s"
	)
	return []target{
		{what: "drain noop c10 / limit", row: c10, value: "jobs_per_s", over: toLimit(c10), least: 0.70, goal: 0.90},
		{what: "drain noop c64 / limit", row: c64, value: "jobs_per_s", over: toLimit(c64), least: 0.70, goal: 0.90},
		{what: "drain io5ms c64 / limit", row: io5, value: "jobs_per_s", over: toLimit(io5), least: 0.97, goal: 1.0},
		{what: "commands a job, drain c10", row: c10, value: "commands_per_job", atMost: true, least: 2.5, goal: 1.15},
		{what: "commands a job, drain c64", row: c64, value: "commands_per_job", atMost: true, least: 2.5, goal: 1.15},
		{what: "own CPU a job c10 / limit", row: c10, value: "own_cpu_us_per_job", over: toLimit(c10), atMost: true, least: 1.6, goal: 1.2},
		{what: "own CPU a job c64 / limit", row: c64, value: "own_cpu_us_per_job", over: toLimit(c64), atMost: true, least: 1.6, goal: 1.2},
		{what: "latency p50 / limit", row: "latency", value: "p50_ms", over: toLimit("latency"), atMost: true, least: 2, goal: 1.2},
		{what: "latency p99, ms", row: "latency", value: "p99_ms", atMost: true, least: 3, goal: 2},
		{what: "retry lateness p50, ms", row: retries, value: "p50_ms", atMost: true, least: 5, goal: 2},
		{what: "retry lateness p99, ms", row: retries, value: "p99_ms", atMost: true, least: 20, goal: 5},
		{what: "idle 10 s, commands", row: quiet, value: "commands", atMost: true, least: 100, goal: 30},
		{what: "idle 10 s, own CPU ms", row: quiet, value: "own_cpu_ms", atMost: true, least: 60, goal: 20},
		{what: "enqueue in 64s / LPUSH", row: "enqueue 64", value: "jobs_per_s", over: toLimit("enqueue 64"), least: 0.80, goal: 0.95},
		{what: "peak RSS, 1M backlog, MiB", row: million, value: "peak_rss_mib", atMost: true, least: 60, goal: 60},
		{what: "peak RSS at 1M / at 100k", row: million, value: "peak_rss_mib", over: &divisor{c64, bare}, atMost: true, least: math.Inf(1), goal: 1.1},
		{what: "rate at 1M / at 100k", row: million, value: "jobs_per_s", over: &divisor{c64, bare}, least: 0.9, goal: 1.0},
		{what: "promotion of 100k due, /s", row: "promote 100k due", value: "promoted_per_s", least: 30_000, goal: 100_000},
		{what: "lateness, 10k in 10 s, p99 ms", row: due, value: "p99_ms", atMost: true, least: 50, goal: 10},
		{what: "everything on / bare", row: c64, who: full, value: "jobs_per_s", over: &divisor{c64, bare}, least: 0.85, goal: 0.95},
	}
}

// contender is who a target is about: the bare engine unless it says otherwise.
func (t target) contender() string { return cmp.Or(t.who, bare) }

// met says whether a value reaches a bound.
func (t target) met(value, bound float64) bool {
	if t.atMost {
		return value <= bound
	}
	return value >= bound
}
