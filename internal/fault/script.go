package fault

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Script says what happens at which pass of which point.
type Script struct {
	rules map[Point]*rule
}

type rule struct {
	passes  atomic.Int64
	actions []action
}

type kind string

const (
	kindKill  kind = "kill"
	kindStall kind = "stall"
	kindFail  kind = "fail"
)

type action struct {
	kind        kind
	stall       time.Duration
	first, last int64 // passes, from 1, both included
}

// Parse reads a script: rules separated by commas, each a point and its actions
// separated by colons. An action is kill, fail or stall=DURATION, with @N (only
// the Nth pass), @N-M or @N- (from the Nth on) behind it; every pass without:
//
//	engine.decoded=kill@3,redis.settled=fail@1-2:stall=500ms@3
//
// An unknown point, action or number is an error.
func Parse(text string) (*Script, error) {
	s := &Script{rules: map[Point]*rule{}}
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, actions, _ := strings.Cut(strings.TrimSpace(part), "=")
		p := Point(name)
		if !slices.Contains(Points(), p) {
			return nil, fmt.Errorf("faults: %q is no fault point", name)
		}
		r := s.rules[p]
		if r == nil {
			r = &rule{}
			s.rules[p] = r
		}
		for spec := range strings.SplitSeq(actions, ":") {
			a, err := parseAction(spec)
			if err != nil {
				return nil, fmt.Errorf("faults: %s: %w", name, err)
			}
			r.actions = append(r.actions, a)
		}
	}
	return s, nil
}

func parseAction(spec string) (action, error) {
	what, passes, limited := strings.Cut(spec, "@")
	word, value, _ := strings.Cut(what, "=")
	a := action{kind: kind(word), first: 1, last: math.MaxInt64}
	var err error
	switch {
	case a.kind == kindStall:
		if a.stall, err = time.ParseDuration(value); err != nil {
			return a, fmt.Errorf("stall needs a duration, as in stall=500ms: %w", err)
		}
	case value != "" || a.kind != kindKill && a.kind != kindFail:
		return a, fmt.Errorf("%q is none of kill, fail and stall=DURATION", what)
	}
	if !limited {
		return a, nil
	}
	first, last, isRange := strings.Cut(passes, "-")
	if a.first, err = strconv.ParseInt(first, 10, 64); err != nil || a.first < 1 {
		return a, fmt.Errorf("%q is no pass number", passes)
	}
	switch {
	case !isRange:
		a.last = a.first
	case last != "":
		if a.last, err = strconv.ParseInt(last, 10, 64); err != nil || a.last < a.first {
			return a, fmt.Errorf("%q is no range of passes", passes)
		}
	}
	return a, nil
}

// pass counts one pass of p and returns its number and what happens at it.
func (s *Script) pass(p Point) (int64, []action) {
	r := s.rules[p]
	if r == nil {
		return 0, nil
	}
	n := r.passes.Add(1)
	var due []action
	for _, a := range r.actions {
		if a.first <= n && n <= a.last {
			due = append(due, a)
		}
	}
	return n, due
}
