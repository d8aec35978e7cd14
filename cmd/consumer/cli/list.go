package cli

import (
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
	Process      string            `json:"process"`
	Enabled      bool              `json:"enabled"`
	Transport    string            `json:"transport"`
	URL          string            `json:"url"` // masked
	Queue        string            `json:"queue"`
	Replicas     int               `json:"replicas"`
	Concurrency  int               `json:"concurrency"`
	Types        []string          `json:"types"`    // the filter; empty = every registered type
	Handlers     []listedHandler   `json:"handlers"` // what it can run
	Capabilities map[string]string `json:"capabilities"`
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
		listed := []listedProcess{}
		for _, process := range cfg.Processes {
			entry, err := describe(cfg, process, registry)
			if err != nil {
				return err
			}
			listed = append(listed, entry)
		}
		if *output == outputJSON {
			return writeJSON(cmd.OutOrStdout(), listed)
		}
		printList(cmd.OutOrStdout(), listed)
		return nil
	}
	return cmd
}

func describe(cfg *config.Config, process *config.Process, registry *core.Registry) (listedProcess, error) {
	view, err := registry.View(process.Types)
	if err != nil {
		return listedProcess{}, &exitError{ExitConfig, err}
	}
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
	for _, pattern := range view.Types() {
		entry.Handlers = append(entry.Handlers, listedHandler{pattern, handlerKind(cfg, pattern)})
	}
	return entry, nil
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
			p.Process, yesNo(p.Enabled), p.Transport, p.URL, p.Queue, p.Replicas, p.Concurrency, types, strings.Join(handlers, " "), "",
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
