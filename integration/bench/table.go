package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
)

// print writes the machine, who took part, what every contender did, and the
// targets.
func (r *report) print(w io.Writer, markdown bool) {
	m := r.Machine
	fmt.Fprintf(w, "%s, %d CPUs, %s; redis %s, %s, go-redis %s; load %s before, %s after; %d interleaved repetitions, scale %g, %s\n\n",
		m.CPU, m.CPUs, m.OS, m.Versions["redis"], m.Versions["go"], m.Versions["go-redis"], m.LoadAtStart, m.LoadAtEnd,
		r.Options.Repetitions, r.Options.Scale, m.At.Format("2006-01-02 15:04 MST"))
	for _, c := range contenders() {
		fmt.Fprintf(w, "- %s: %s\n", c.name, c.about)
	}
	fmt.Fprintln(w)
	for _, t := range []table.Writer{r.results(), r.verdicts()} {
		if markdown {
			fmt.Fprintln(w, t.RenderMarkdown())
		} else {
			fmt.Fprintln(w, t.Render())
		}
		fmt.Fprintln(w)
	}
}

// results has a line for each value and a column for each contender: the median,
// and in brackets the median ratio to the limit.
func (r *report) results() table.Writer {
	names := make([]string, 0, len(contenders()))
	header := table.Row{"row", "value"}
	for _, c := range contenders() {
		names = append(names, c.name)
		header = append(header, c.name)
	}
	t := newTable(header)
	for _, row := range r.rowNames() {
		for _, value := range r.valueNames(row) {
			line := table.Row{row, value}
			for _, name := range names {
				line = append(line, r.cell(row, name, value))
			}
			t.AppendRow(line)
		}
	}
	return t
}

func (r *report) cell(row, contender, value string) string {
	series := r.series(row, contender, value)
	if len(series) == 0 {
		return ""
	}
	text := number(median(series))
	if by := r.series(row, limit, value); len(by) > 0 && contender != limit {
		text += " (" + number(median(ratios(series, by))) + ")"
	}
	return text
}

// verdicts has a line for each target that was measured.
func (r *report) verdicts() table.Writer {
	t := newTable(table.Row{"target", "measured", "at least", "goal", "met"})
	for _, target := range targets() {
		series := r.series(target.row, target.contender(), target.value)
		if target.over != nil {
			series = ratios(series, r.series(target.over.row, target.over.who, target.value))
		}
		if len(series) == 0 {
			continue
		}
		sign := "≥ "
		if target.atMost {
			sign = "≤ "
		}
		value := median(series)
		t.AppendRow(table.Row{target.what, number(value), sign + number(target.least), sign + number(target.goal), target.verdict(value)})
	}
	return t
}

func (t target) verdict(value float64) string {
	switch {
	case t.met(value, t.goal):
		return "goal"
	case t.met(value, t.least):
		return "yes"
	}
	return "NO"
}

func newTable(header table.Row) table.Writer {
	t := table.NewWriter()
	t.AppendHeader(header)
	t.SetStyle(table.StyleLight)
	return t
}

func (r *report) rowNames() []string {
	var names []string
	for _, s := range r.Samples {
		if !slices.Contains(names, s.Row) {
			names = append(names, s.Row)
		}
	}
	return names
}

func (r *report) valueNames(row string) []string {
	var names []string
	for _, s := range r.Samples {
		for name := range s.Values {
			if s.Row == row && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// number has three significant digits.
func number(v float64) string {
	if a := math.Abs(v); a >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
