package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/cmd/consumer/config"
)

func (p *program) configCommand() *cobra.Command {
	return group(&cobra.Command{Use: "config", Short: "check or show the config file"},
		p.configCheckCommand(), p.configShowCommand())
}

func (p *program) configCheckCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "check", Short: "print every fault with its line; exit 78 when there is one", Args: noArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.loadConfig()
		if err == nil {
			_, err = p.pick(cfg, nil)
		}
		if faults, ok := errors.AsType[config.Faults](err); ok {
			for _, fault := range faults {
				fmt.Fprintln(cmd.OutOrStdout(), fault.Error())
			}
			return &exitError{ExitConfig, errReported}
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s: ok, %s\n", cfg.Path, counted(len(cfg.Processes), "process", "processes"))
		return nil
	}
	return cmd
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
