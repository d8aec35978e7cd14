package deadletter

import (
	"strings"
	"time"
)

// Filter chooses entries; zero fields choose all. Every one that is set must
// match.
type Filter struct {
	Type   string    // job type; * stands for any run of characters
	Reason string    // exactly
	Error  string    // part of the error text
	Since  time.Time // at or after
	Until  time.Time // before
	ID     string    // exactly
	Limit  int       // the first so many that match (a replay counts only readable ones); 0 = no limit
}

// Match says whether the filter lets an entry through. Limit is the caller's.
func (f Filter) Match(e *Entry) bool {
	r := &e.Record
	switch {
	case f.ID != "" && f.ID != e.ID,
		f.Reason != "" && f.Reason != r.Reason,
		f.Error != "" && !strings.Contains(r.Error, f.Error),
		!f.Since.IsZero() && r.At.Before(f.Since),
		!f.Until.IsZero() && !r.At.Before(f.Until):
		return false
	case f.Type == "":
		return true
	}
	return r.Job != nil && matchType(f.Type, r.Job.Type)
}

// choose returns the entries that match and that usable takes, until left of the
// limit is used up; left counts down from 0 without one.
func (f Filter) choose(entries []*Entry, left *int, usable func(*Entry) bool) (chosen []*Entry, enough bool) {
	for _, e := range entries {
		if !f.Match(e) || !usable(e) {
			continue
		}
		chosen = append(chosen, e)
		if *left--; *left == 0 {
			return chosen, true
		}
	}
	return chosen, false
}

// matchType matches a pattern with * for any run of characters, dots included.
func matchType(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}
