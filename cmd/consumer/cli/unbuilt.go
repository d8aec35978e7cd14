package cli

import (
	"github.com/spf13/cobra"
)

// unbuilt are the verbs that the command line promises and this version does not
// have yet, each with what to do instead.
var unbuilt = []struct{ name, does, instead string }{
	{"init", "write a commented consumer.yaml and a compose file", "copy consumer.example.yaml from the repository"},
	{"jobs", "look at tracked jobs", "read the logs, or consumer dlq for dead letters"},
	{"doctor", "check every transport and say how to fix what it finds", "use consumer stats to see whether the brokers answer"},
	{"explain", "show topology, retry ladder and what each outcome does", "use consumer list and consumer config show"},
	{"topology", "declare or compare queues, exchanges and topics", "Redis needs none"},
	{"move", "move waiting jobs between transports", "let the old process drain while producers use the new one"},
	{"bench", "publish, consume and report rate and latency", "use make bench in the repository"},
}

// unbuiltCommands make those verbs known, so that each says so instead of being
// taken for a typing error.
func (p *program) unbuiltCommands() []*cobra.Command {
	var cmds []*cobra.Command
	for _, u := range unbuilt {
		cmds = append(cmds, notBuilt(&cobra.Command{Use: u.name, Short: u.does + " (not in this version yet)"}, u.instead))
	}
	return cmds
}

// notBuilt makes cmd refuse every command line with one sentence.
func notBuilt(cmd *cobra.Command, instead string) *cobra.Command {
	cmd.DisableFlagParsing = true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usageErrorf("%s is not built in this version yet: %s", verb(cmd), instead)
	}
	return cmd
}
