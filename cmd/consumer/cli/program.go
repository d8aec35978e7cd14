package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/processes/builtin"
)

// program is one execution of a command line.
type program struct {
	opts    Options
	process Process
	halt    context.Context // ends at the second signal
	reload  <-chan struct{} // one for each SIGHUP

	configPath string
	logFormat  string
	logLevel   string
	logWriter  io.Writer    // takes whole lines; set before a verb runs
	logger     *slog.Logger // set before a verb runs

	commands builtin.Commands // those of exec handlers
}

// run executes the command line and prints its error, if any, as one sentence.
func (p *program) run(ctx context.Context) int {
	results := &resultWriter{w: p.process.Stdout}
	root := p.rootCommand(results)
	root.SetArgs(p.process.Args)
	err := interrupted(ctx, root.ExecuteContext(ctx))
	if err == nil {
		err = results.err
	}
	switch {
	case err == nil || err.Error() == "":
	case isFaults(err): // a line a fault, each with its file
		fmt.Fprintln(p.process.Stderr, masked(err))
	default:
		fmt.Fprintf(p.process.Stderr, "%s: %s\n", p.opts.Name, strings.TrimSpace(masked(err)))
	}
	return exitCode(err)
}

func (p *program) rootCommand(results io.Writer) *cobra.Command {
	root := &cobra.Command{
		Use:                        p.opts.Name,
		Short:                      "Background jobs that are never lost: one handler, the same rules on every broker",
		SilenceErrors:              true, // run prints them, once
		SilenceUsage:               true,
		Version:                    p.version().Version,
		SuggestionsMinimumDistance: 2,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageErrorf("unknown verb %q%s; see %s --help", args[0], p.suggest(cmd, args[0]), p.opts.Name)
		},
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error { return p.openLog() },
	}
	root.SetIn(p.process.Stdin)
	root.SetOut(results)
	root.SetErr(p.process.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageErrorf("%w; see %s --help", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&p.configPath, "config", "", "config file (default $CONSUMER_CONFIG, else ./consumer.yaml)")
	flags.StringVar(&p.logFormat, "log-format", "auto", "json, text, or auto: json unless stderr is a terminal")
	flags.StringVar(&p.logLevel, "log-level", "info", "debug, info, warn or error")

	root.AddCommand(
		p.demoCommand(),
		p.runCommand(),
		p.publishCommand(),
		p.statsCommand(),
		p.listCommand(),
		p.dlqCommand(),
		p.configCommand(),
		p.versionCommand(),
		p.replicaCommand(),
	)
	root.AddCommand(p.steerCommands()...)
	root.AddCommand(p.unbuiltCommands()...)
	addCompletion(root)
	return root
}

// addCompletion adds cobra's completion verb, which by itself takes an unknown
// shell for a call for help.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			shells := slices.Clone(cmd.Commands())
			cmd.RemoveCommand(shells...)
			cmd.Args = nil
			group(cmd, shells...)
		}
	}
}

func (p *program) suggest(root *cobra.Command, verb string) string {
	if near := root.SuggestionsFor(verb); len(near) > 0 {
		return fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
	}
	return ""
}

// verb is cmd's words without the program's name.
func verb(cmd *cobra.Command) string {
	_, words, _ := strings.Cut(cmd.CommandPath(), " ")
	return words
}

// noArgs refuses words that are not flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageErrorf("%s takes no argument %q; see %s --help", verb(cmd), args[0], cmd.CommandPath())
	}
	return nil
}

// group is a verb that only holds others.
func group(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subs...)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var names []string
		for _, sub := range subs {
			names = append(names, sub.Name())
		}
		what := "needs one of"
		if len(args) > 0 {
			what = fmt.Sprintf("does not know %q; it has", args[0])
		}
		return usageErrorf("%s %s %s", verb(cmd), what, strings.Join(names, ", "))
	}
	return cmd
}
