package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MatchType says whether a job type matches a pattern, in which * stands for any
// run of characters, dots and none included. A pattern without * matches itself.
func MatchType(pattern, jobType string) bool {
	prefix, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == jobType
	}
	if !strings.HasPrefix(jobType, prefix) {
		return false
	}
	jobType = jobType[len(prefix):]
	for {
		var part string
		part, rest, star = strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(jobType, part)
		}
		i := strings.Index(jobType, part)
		if i < 0 {
			return false
		}
		jobType = jobType[i+len(part):]
	}
}

// patternsMeet says whether some type matches both patterns. With a * in both,
// what stands between their first and last ones can always be strung together,
// so only the ends decide.
func patternsMeet(a, b string) bool {
	prefixA, _, starA := strings.Cut(a, "*")
	prefixB, _, starB := strings.Cut(b, "*")
	if !starA {
		return MatchType(b, a)
	}
	if !starB {
		return MatchType(a, b)
	}
	suffixA := a[strings.LastIndexByte(a, '*')+1:]
	suffixB := b[strings.LastIndexByte(b, '*')+1:]
	return (strings.HasPrefix(prefixA, prefixB) || strings.HasPrefix(prefixB, prefixA)) &&
		(strings.HasSuffix(suffixA, suffixB) || strings.HasSuffix(suffixB, suffixA))
}

// patternTable finds the value of the pattern that fits a job type best: an
// exact name beats a pattern, and the longer text before the first * beats the
// shorter. It may be read by many goroutines once it is filled.
type patternTable[T any] struct {
	exact map[string]T
	globs []glob[T] // best first
}

type glob[T any] struct {
	pattern string
	literal int // length of the text before the first *
	value   T
}

// add takes a pattern in. The same pattern again, or one that ties with another,
// is an error that names both.
func (t *patternTable[T]) add(pattern string, value T) error {
	if pattern == "" {
		return errors.New("a job type or pattern must not be empty")
	}
	literal := strings.IndexByte(pattern, '*')
	if literal < 0 {
		return t.addExact(pattern, value)
	}
	at := len(t.globs)
	for i, g := range t.globs {
		switch {
		case g.pattern == pattern:
			return fmt.Errorf("%q is registered twice", pattern)
		case g.literal == literal && patternsMeet(g.pattern, pattern):
			return fmt.Errorf("%q and %q tie: some job types match both and neither has more text before its first *; make one of them longer there", g.pattern, pattern)
		case g.literal < literal:
			at = min(at, i)
		}
	}
	t.globs = slices.Insert(t.globs, at, glob[T]{pattern, literal, value})
	return nil
}

func (t *patternTable[T]) addExact(name string, value T) error {
	if _, twice := t.exact[name]; twice {
		return fmt.Errorf("%q is registered twice", name)
	}
	if t.exact == nil {
		t.exact = map[string]T{}
	}
	t.exact[name] = value
	return nil
}

// find returns the best pattern's value, and the pattern.
func (t *patternTable[T]) find(jobType string) (value T, pattern string, ok bool) {
	if value, ok = t.exact[jobType]; ok {
		return value, jobType, true
	}
	for i := range t.globs {
		if g := &t.globs[i]; MatchType(g.pattern, jobType) {
			return g.value, g.pattern, true
		}
	}
	return value, "", false
}

// patterns lists all of them, sorted.
func (t *patternTable[T]) patterns() []string {
	all := make([]string, 0, len(t.exact)+len(t.globs))
	for name := range t.exact {
		all = append(all, name)
	}
	for _, g := range t.globs {
		all = append(all, g.pattern)
	}
	slices.Sort(all)
	return all
}

// mapped returns the same patterns with values made by change.
func (t *patternTable[T]) mapped(change func(T) T) patternTable[T] {
	out := patternTable[T]{exact: make(map[string]T, len(t.exact)), globs: slices.Clone(t.globs)}
	for name, value := range t.exact {
		out.exact[name] = change(value)
	}
	for i := range out.globs {
		out.globs[i].value = change(out.globs[i].value)
	}
	return out
}
