package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// bench is the parent: it runs trials against its server.
type bench struct {
	addr     string
	rdb      *redis.Client
	progress io.Writer
	profiles string // directory for a CPU profile of each trial; "" = none
}

// sample is one trial's outcome.
type sample struct {
	Repetition int    `json:"repetition"`
	Row        string `json:"row"`
	Contender  string `json:"contender"`
	Values     values `json:"values"`
}

// run does every row reps times. The contenders' order turns with each repetition.
func (b *bench) run(ctx context.Context, rows []row, reps int) ([]sample, error) {
	var samples []sample
	for rep := range reps {
		for _, r := range rows {
			for i := range r.contenders {
				t := r.trial
				t.Contender = r.contenders[(i+rep)%len(r.contenders)]
				v, err := b.trial(ctx, t, rep)
				if err != nil {
					return samples, fmt.Errorf("%s, %s: %w", t.Row, t.Contender, err)
				}
				samples = append(samples, sample{rep + 1, t.Row, t.Contender, v})
				fmt.Fprintf(b.progress, "%d/%d  %-18s  %-17s %s\n", rep+1, reps, t.Row, t.Contender, v)
			}
		}
	}
	return samples, nil
}

// trial empties the broker, loads the queue and runs one child.
func (b *bench) trial(ctx context.Context, t trial, rep int) (values, error) {
	if err := b.rdb.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	if load := measurements()[t.Kind].load; load != nil {
		if err := load(ctx, b, t); err != nil {
			return nil, fmt.Errorf("load the queue: %w", err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	arg, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	child := exec.CommandContext(ctx, self, "-child", string(arg), "-addr", b.addr)
	if b.profiles != "" {
		name := strings.ReplaceAll(fmt.Sprintf("%s_%s_%d.pprof", t.Row, t.Contender, rep+1), " ", "-")
		child.Args = append(child.Args, "-profile", filepath.Join(b.profiles, name))
	}
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, os.Stderr
	if err := child.Run(); err != nil {
		return nil, err
	}
	var v values
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		return nil, fmt.Errorf("read the child's result: %w", err)
	}
	return v, nil
}

// String lists the values by name.
func (v values) String() string {
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintf(&out, " %s=%s", name, number(v[name]))
	}
	return out.String()
}
