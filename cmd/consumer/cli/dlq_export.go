package cli

import (
	"bufio"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/deadletter"
)

// exportBuffer gathers lines before they are written.
const exportBuffer = 64 << 10

func (p *program) dlqExportCommand() *cobra.Command {
	var flags dlqFilter
	cmd := &cobra.Command{
		Use:   "export --process=NAME",
		Short: "print dead-letter records as they are stored, one a line, oldest first; publish --file reads them back",
		Args:  noArgs,
	}
	flags.register(cmd)
	output := exportNDJSON
	cmd.Flags().VarP(&output, "output", "o", "ndjson: a record a line; json: an array of them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d, err := p.openDLQ(cmd.Context(), &flags)
		if err != nil {
			return err
		}
		defer d.close()
		records := &recordPrinter{out: bufio.NewWriterSize(cmd.OutOrStdout(), exportBuffer), array: output == exportJSON}
		bar := &dlqProgress{}
		if !isTerminal(p.process.Stdout) { // else the records would run through it
			bar = d.progress(cmd, "exported")
		}
		store := visited{d.store, func(n int) { bar.at(n, records.count) }}
		err = deadletter.Select(cmd.Context(), store, d.filter, records.add)
		bar.end()
		err = errors.Join(brokerError(err), records.end())
		if err == nil && records.count == 0 && flags.id != "" {
			return d.unknownID(flags.id)
		}
		return err
	}
	return cmd
}

// exportFlag is -o of `dlq export`.
type exportFlag string

const (
	exportNDJSON exportFlag = "ndjson"
	exportJSON   exportFlag = "json"
)

// String, Set and Type make exportFlag a flag value.
func (o *exportFlag) String() string { return string(*o) }
func (o *exportFlag) Type() string   { return "ndjson|json" }

// Set takes one of the two formats.
func (o *exportFlag) Set(s string) error {
	switch exportFlag(s) {
	case exportNDJSON, exportJSON:
		*o = exportFlag(s)
		return nil
	}
	return usageErrorf("%q is neither ndjson nor json", s)
}

// recordPrinter writes records as they come: lines, or an array with a line each.
type recordPrinter struct {
	out   *bufio.Writer
	array bool
	count int
	line  []byte
}

func (r *recordPrinter) add(e *deadletter.Entry) error {
	r.line = r.line[:0]
	switch {
	case !r.array:
	case r.count == 0:
		r.line = append(r.line, "[\n"...)
	default:
		r.line = append(r.line, ",\n"...)
	}
	r.line = deadletter.AppendLine(r.line, e)
	if !r.array {
		r.line = append(r.line, '\n')
	}
	r.count++
	_, err := r.out.Write(r.line)
	return err
}

func (r *recordPrinter) end() error {
	if r.array {
		ending := "\n]\n"
		if r.count == 0 {
			ending = "[]\n"
		}
		if _, err := io.WriteString(r.out, ending); err != nil {
			return err
		}
	}
	return r.out.Flush()
}
