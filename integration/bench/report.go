package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// report is a whole run: what it ran on and every sample.
type report struct {
	Machine machine       `json:"machine"`
	Options reportOptions `json:"options"`
	Samples []sample      `json:"samples"`
}

type reportOptions struct {
	Repetitions int     `json:"repetitions"`
	Scale       float64 `json:"scale"`
	Rows        string  `json:"rows,omitempty"`
	Who         string  `json:"who,omitempty"`
}

// machine is what the numbers depend on.
type machine struct {
	At          time.Time         `json:"at"`
	CPU         string            `json:"cpu"`
	CPUs        int               `json:"cpus"`
	OS          string            `json:"os"`
	LoadAtStart string            `json:"load_at_start"`
	LoadAtEnd   string            `json:"load_at_end"`
	Versions    map[string]string `json:"versions"`
}

func describeMachine(ctx context.Context, rdb *redis.Client) (machine, error) {
	info, err := rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return machine{}, err
	}
	m := machine{
		At: time.Now().UTC().Truncate(time.Second), CPU: cpuModel(), CPUs: runtime.NumCPU(),
		OS:          strings.TrimSpace(runtime.GOOS + " " + firstLine("/proc/sys/kernel/osrelease")),
		LoadAtStart: loadAverage(),
		Versions:    map[string]string{"redis": info["Server"]["redis_version"], "go": runtime.Version()},
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range build.Deps {
			if dep.Path == "github.com/redis/go-redis/v9" {
				m.Versions["go-redis"] = dep.Version
			}
		}
	}
	return m, nil
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // absent on other systems
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func loadAverage() string {
	fields := strings.Fields(firstLine("/proc/loadavg"))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

func firstLine(path string) string {
	text, _ := os.ReadFile(path) // absent on other systems
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

func readReport(path string) (*report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &r, nil
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// series is a value's samples in the order of repetitions.
func (r *report) series(row, contender, value string) []float64 {
	var out []float64
	for _, s := range r.Samples {
		if s.Row == row && s.Contender == contender {
			if v, ok := s.Values[value]; ok {
				out = append(out, v)
			}
		}
	}
	return out
}

// ratios divides two series repetition by repetition.
func ratios(series, by []float64) []float64 {
	out := make([]float64, min(len(series), len(by)))
	for i := range out {
		out[i] = series[i] / by[i]
	}
	return out
}

// median is NaN of nothing.
func median(series []float64) float64 {
	if len(series) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(series))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
