package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/processes"
)

// listedProcess is one process of `list`.
type listedProcess struct {
	Process      string              `json:"process"`
	Enabled      bool                `json:"enabled"`
	Transport    string              `json:"transport"`
	URL          string              `json:"url"` // masked
	Queue        string              `json:"queue"`
	Replicas     int                 `json:"replicas"`
	Concurrency  int                 `json:"concurrency"`
	Types        []string            `json:"types"`        // the filter; empty = every registered type
	Handlers     []listedHandler     `json:"handlers"`     // what it can run
	Capabilities *listedCapabilities `json:"capabilities"` // null: known only once subscribed
}

// listedCapabilities says of each power native, emulated, weaker or none.
type listedCapabilities struct {
	Delay          string   `json:"delay"`
	Priority       string   `json:"priority"`
	OrderKey       string   `json:"order_key"`
	OrderPartition string   `json:"order_partition"`
	OrderQueue     string   `json:"order_queue"`
	CrashCount     string   `json:"crash_count"`
	AtomicSettle   string   `json:"atomic_settle"`
	Notes          []string `json:"notes"`
}

type listedHandler struct {
	Type string `json:"type"` // a type or pattern
	Kind string `json:"kind"` // http, exec, log or go
}

func (p *program) listCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "processes, their transports, handlers, types and capabilities", Args: noArgs}
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.loadConfig()
		if err != nil {
			return err
		}
		registry, err := p.registry(cfg)
		if err != nil {
			return err
		}
		brokers := p.newBrokers(false)
		defer brokers.close()
		listed := []listedProcess{}
		for _, process := range cfg.Processes {
			listed = append(listed, p.describe(cfg, process, registry, brokers))
		}
		if *output == outputJSON {
			return writeJSON(cmd.OutOrStdout(), listed)
		}
		printList(cmd.OutOrStdout(), listed)
		return nil
	}
	return cmd
}

// describe tells what is known without asking a broker. What is wrong with a
// process is for `config check` and `run` to say; here it only has no handlers or
// capabilities.
func (p *program) describe(cfg *config.Config, process *config.Process, registry *core.Registry, brokers *brokers) listedProcess {
	entry := listedProcess{
		Process: process.Name, Enabled: process.Enabled, Transport: process.Transport, Queue: process.Queue,
		Replicas: process.Replicas, Concurrency: process.Concurrency, Types: append([]string{}, process.Types...),
		Handlers: []listedHandler{},
	}
	for _, endpoint := range cfg.Transports {
		if endpoint.Name == process.Transport {
			entry.URL = processes.MaskURL(endpoint.URL)
		}
	}
	if view, err := registry.View(process.Types); err != nil {
		p.logger.Warn("list.no_handlers", "process", process.Name, "reason", err.Error())
	} else {
		for _, pattern := range view.Types() {
			entry.Handlers = append(entry.Handlers, listedHandler{pattern, handlerKind(cfg, pattern)})
		}
	}
	if driver, err := brokers.open(cfg, process); err == nil {
		if able, ok := driver.(interface{ Capabilities() core.Capabilities }); ok {
			entry.Capabilities = newListedCapabilities(able.Capabilities())
		}
		_ = driver.Close(context.Background()) // it never connected
	}
	return entry
}

func newListedCapabilities(c core.Capabilities) *listedCapabilities {
	listed := &listedCapabilities{
		Delay: supportWord(c.Delay), Priority: supportWord(c.Priority), OrderKey: supportWord(c.OrderKey),
		OrderPartition: supportWord(c.OrderPartition), OrderQueue: supportWord(c.OrderQueue),
		CrashCount: supportWord(c.CrashCount), AtomicSettle: supportWord(c.AtomicSettle), Notes: c.Notes,
	}
	return listed
}

func supportWord(s core.Support) string {
	switch s {
	case core.SupportWeaker:
		return "weaker"
	case core.SupportEmulated:
		return "emulated"
	case core.SupportNative:
		return "native"
	}
	return "none"
}

// words are the powers that are there, for a table.
func (c *listedCapabilities) words() string {
	if c == nil {
		return "-"
	}
	var words []string
	for _, power := range []struct{ name, support string }{
		{"delay", c.Delay}, {"priority", c.Priority}, {"order by key", c.OrderKey}, {"order by partition", c.OrderPartition},
		{"order of the queue", c.OrderQueue}, {"crash count", c.CrashCount}, {"atomic settle", c.AtomicSettle},
	} {
		if power.support != "none" {
			words = append(words, power.name+" ("+power.support+")")
		}
	}
	return strings.Join(words, ", ")
}

// handlerKind says where a handler comes from.
func handlerKind(cfg *config.Config, pattern string) string {
	i := slices.IndexFunc(cfg.Handlers, func(h config.Handler) bool { return h.Pattern == pattern })
	switch {
	case i < 0:
		return "go"
	case cfg.Handlers[i].HTTP != nil:
		return "http"
	case cfg.Handlers[i].Exec != nil:
		return "exec"
	}
	return "log"
}

func printList(w io.Writer, listed []listedProcess) {
	t := newTable(w, "process", "enabled", "transport", "url", "queue", "replicas", "concurrency", "types", "handlers", "capabilities")
	for _, p := range listed {
		var handlers []string
		for _, h := range p.Handlers {
			handlers = append(handlers, h.Type+" ("+h.Kind+")")
		}
		types := "*"
		if len(p.Types) > 0 {
			types = strings.Join(p.Types, " ")
		}
		t.AppendRow([]any{
			p.Process, yesNo(p.Enabled), p.Transport, p.URL, p.Queue, p.Replicas, p.Concurrency, types, strings.Join(handlers, " "), p.Capabilities.words(),
		})
	}
	t.Render()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
