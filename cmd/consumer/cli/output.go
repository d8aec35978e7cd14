package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

// outputFlag is -o of the verbs that read.
type outputFlag string

const (
	outputTable outputFlag = "table"
	outputJSON  outputFlag = "json"
)

// String, Set and Type make outputFlag a flag value.
func (o *outputFlag) String() string { return string(*o) }
func (o *outputFlag) Type() string   { return "table|json" }

// Set takes one of the two formats.
func (o *outputFlag) Set(s string) error {
	switch outputFlag(s) {
	case outputTable, outputJSON:
		*o = outputFlag(s)
		return nil
	}
	return usageErrorf("%q is neither table nor json", s)
}

func addOutputFlag(cmd *cobra.Command) *outputFlag {
	output := outputTable
	cmd.Flags().VarP(&output, "output", "o", "how results are printed")
	return &output
}

// resultWriter remembers that results could not be written, since the makers of
// tables and help texts don't tell.
type resultWriter struct {
	w   io.Writer
	err error
}

// Write writes to w.
func (r *resultWriter) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("print results: %w", err)
	}
	return n, err
}

// writeJSON prints v as one indented document. HTML characters stay as they are.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// newTable makes a table without lines, one header row first.
func newTable(w io.Writer, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	t.SetStyle(style)
	t.AppendHeader(table.Row(header))
	return t
}

// dash prints what a broker does not tell as "-".
func dash[T any](v *T) any {
	if v == nil {
		return "-"
	}
	return *v
}

// tenths prints a number for people, to a tenth.
func tenths(v *float64) any {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 1, 64)
}
