package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/cmd/consumer/config"
)

func (p *program) configCommand() *cobra.Command {
	return group(&cobra.Command{Use: "config", Short: "check or show the config file"},
		p.configCheckCommand(), p.configShowCommand())
}

func (p *program) configCheckCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "print every fault with its line; exit 78 when there is one", Args: noArgs}
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.loadConfig()
		if err == nil {
			_, err = p.pick(cfg, nil)
		}
		faults, ok := errors.AsType[config.Faults](err)
		if err != nil && !ok {
			return err
		}
		if err := printFaults(cmd.OutOrStdout(), *output, faults); err != nil {
			return err
		}
		if ok {
			return &exitError{ExitConfig, errReported}
		}
		if *output == outputTable {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %s\n", cfg.Path, counted(len(cfg.Processes), "process", "processes"))
		}
		return nil
	}
	return cmd
}

// shownFault is one fault of `config check`; line 0 is none of the file's.
type shownFault struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

func printFaults(w io.Writer, output outputFlag, faults config.Faults) error {
	shown := []shownFault{}
	for _, f := range faults {
		shown = append(shown, shownFault{f.File, f.Line, f.Column, f.Text})
		if output == outputTable {
			fmt.Fprintln(w, f.Error())
		}
	}
	if output == outputTable {
		return nil
	}
	return writeJSON(w, shown)
}

// shownValue is one line of `config show`.
type shownValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func (p *program) configShowCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "show", Short: "print every effective value and where it came from, secrets masked", Args: noArgs}
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.loadConfig()
		if err != nil {
			return err
		}
		shown := []shownValue{}
		for _, v := range cfg.Values() {
			shown = append(shown, shownValue{v.Key, v.Text, v.Source})
		}
		if *output == outputJSON {
			return writeJSON(cmd.OutOrStdout(), shown)
		}
		t := newTable(cmd.OutOrStdout(), "key", "value", "source")
		for _, v := range shown {
			t.AppendRow([]any{v.Key, v.Value, v.Source})
		}
		t.Render()
		return nil
	}
	return cmd
}

// counted is "1 job" or "2 jobs".
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
