package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/deadletter"
)

// deadEntry is one dead letter as `dlq ls` prints it.
type deadEntry struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	Reason     string `json:"reason"`
	Error      string `json:"error"`
	At         int64  `json:"at"` // unix seconds
	Attempt    int    `json:"attempt"`
	Replayed   int    `json:"replayed"`
	Queue      string `json:"queue"`
	Process    string `json:"process"`
	Transport  string `json:"transport"`
	Unreadable string `json:"unreadable,omitempty"` // why it cannot be replayed
}

func newDeadEntry(e *deadletter.Entry) deadEntry {
	r := &e.Record
	entry := deadEntry{
		ID: e.ID, Reason: r.Reason, Error: r.Error, At: max(r.At.Unix(), 0),
		Queue: r.Queue, Process: r.Process, Transport: r.Transport,
	}
	if r.Job != nil {
		entry.Type, entry.Attempt, entry.Replayed = r.Job.Type, r.Job.Attempt, r.Job.Meta.Replayed()
	}
	if e.Err != nil {
		entry.Unreadable = e.Err.Error()
	}
	return entry
}

func (p *program) dlqListCommand() *cobra.Command {
	var flags dlqFilter
	cmd := &cobra.Command{Use: "ls --process=NAME", Short: "list dead letters, oldest first", Args: noArgs}
	flags.register(cmd)
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d, err := p.openDLQ(cmd.Context(), &flags)
		if err != nil {
			return err
		}
		defer d.close()
		printer := newDeadPrinter(cmd.OutOrStdout(), *output)
		if err := deadletter.Select(cmd.Context(), d.store, d.filter, printer.add); err != nil {
			return brokerError(err)
		}
		return printer.end()
	}
	return cmd
}

// deadPrinter prints entries as they come, so that memory does not grow with
// their number. A table's widths are those of its first block of rows, and grow
// with a later one's.
type deadPrinter struct {
	out    *bufio.Writer
	json   bool
	count  int
	rows   []table.Row
	widths []int
}

// deadBlock is how many rows of a table are held for their widths.
const deadBlock = 1000

var deadColumns = table.Row{"id", "type", "reason", "attempt", "at", "error"}

func newDeadPrinter(out io.Writer, output outputFlag) *deadPrinter {
	return &deadPrinter{out: bufio.NewWriterSize(out, exportBuffer), json: output == outputJSON, widths: make([]int, len(deadColumns))}
}

func (d *deadPrinter) add(e *deadletter.Entry) error {
	entry := newDeadEntry(e)
	d.count++
	if !d.json {
		d.rows = append(d.rows, table.Row{
			entry.ID, entry.Type, entry.Reason, entry.Attempt, age(entry.At), oneLine(cmp.Or(entry.Error, entry.Unreadable), 60),
		})
		if len(d.rows) == deadBlock {
			return d.block()
		}
		return nil
	}
	separator := ",\n  "
	if d.count == 1 {
		separator = "[\n  "
	}
	object, err := json.Marshal(entry)
	if err == nil {
		_, err = fmt.Fprintf(d.out, "%s%s", separator, object)
	}
	return err
}

// block prints the rows so far; the first block has the header.
func (d *deadPrinter) block() error {
	t := newTable(d.out, deadColumns...)
	if d.count > len(d.rows) {
		t.ResetHeaders()
	}
	var columns []table.ColumnConfig
	for i := range d.widths {
		for _, row := range d.rows {
			d.widths[i] = max(d.widths[i], text.StringWidthWithoutEscSequences(fmt.Sprint(row[i])))
		}
		columns = append(columns, table.ColumnConfig{Number: i + 1, WidthMin: d.widths[i]})
	}
	t.SetColumnConfigs(columns)
	t.AppendRows(d.rows)
	t.Render()
	d.rows = d.rows[:0]
	return d.out.Flush()
}

func (d *deadPrinter) end() error {
	if !d.json {
		if d.count == 0 || len(d.rows) > 0 {
			return d.block()
		}
		return nil
	}
	ending := "\n]\n"
	if d.count == 0 {
		ending = "[]\n"
	}
	if _, err := io.WriteString(d.out, ending); err != nil {
		return err
	}
	return d.out.Flush()
}

// age prints a time of unix seconds for people.
func age(at int64) string {
	if at == 0 {
		return "-"
	}
	return time.Unix(at, 0).UTC().Format(time.RFC3339)
}

// oneLine cuts text for a table cell.
func oneLine(text string, width int) string {
	runes := []rune(text)
	for i, r := range runes {
		if r < ' ' {
			runes[i] = ' '
		}
	}
	if len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return string(runes)
}
