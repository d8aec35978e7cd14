package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one mistake in the configuration. Line 0 means that it is not in the
// file: an environment variable, or the file itself.
type Fault struct {
	File   string
	Line   int
	Column int
	Text   string // one sentence; holds no values that may be secret
}

// Error is file:line: sentence.
func (f Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// Faults are all mistakes found, in file order.
type Faults []Fault

// Error is one line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

func (fs Faults) sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
