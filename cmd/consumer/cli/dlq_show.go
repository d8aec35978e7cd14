package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/deadletter"
)

// shownEntry is a dead letter with all that it holds.
type shownEntry struct {
	deadEntry
	Job json.RawMessage `json:"job"`           // null for malformed and too large input
	Raw []byte          `json:"raw,omitempty"` // what came in place of a job
}

func (p *program) dlqShowCommand() *cobra.Command {
	var flags dlqFilter
	cmd := &cobra.Command{Use: "show ID --process=NAME", Short: "print a dead letter with its whole job"}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 || len(args) == 1 && flags.id != "" {
			return usageErrorf("dlq show takes one id")
		}
		if len(args) == 1 {
			flags.id = args[0]
		}
		if flags.id == "" {
			return usageErrorf("dlq show needs an id: see consumer dlq ls --process=NAME")
		}
		return nil
	}
	flags.register(cmd)
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d, err := p.openDLQ(cmd.Context(), &flags)
		if err != nil {
			return err
		}
		defer d.close()
		var found []shownEntry
		err = deadletter.Select(cmd.Context(), d.store, d.filter, func(e *deadletter.Entry) error {
			shown := shownEntry{deadEntry: newDeadEntry(e), Raw: e.Record.Raw}
			if e.Record.Job != nil {
				shown.Job = e.Record.Job.Append(nil)
			}
			found = append(found, shown)
			return nil
		})
		switch {
		case err != nil:
			return brokerError(err)
		case len(found) == 0:
			return d.unknownID(flags.id)
		case *output == outputTable:
			return printShown(cmd, found)
		case len(found) == 1:
			return writeJSON(cmd.OutOrStdout(), found[0])
		}
		return writeJSON(cmd.OutOrStdout(), found) // it died more than once
	}
	return cmd
}

func printShown(cmd *cobra.Command, found []shownEntry) error {
	for _, e := range found {
		t := newTable(cmd.OutOrStdout(), "member", "value")
		for _, row := range [][]any{
			{"id", e.ID}, {"type", e.Type}, {"reason", e.Reason}, {"error", e.Error}, {"at", age(e.At)}, {"attempt", e.Attempt},
			{"replayed", e.Replayed}, {"queue", e.Queue}, {"process", e.Process}, {"transport", e.Transport},
		} {
			t.AppendRow(row)
		}
		if e.Unreadable != "" {
			t.AppendRow([]any{"unreadable", e.Unreadable})
		}
		t.Render()
		text := string(e.Job)
		if e.Job == nil {
			text = fmt.Sprintf("%q", e.Raw)
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text); err != nil {
			return err
		}
	}
	return nil
}
