package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p *program) versionCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "print the version", Args: noArgs}
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		info := p.version()
		if *output == outputJSON {
			return writeJSON(cmd.OutOrStdout(), info)
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), p.opts.Name, info.Version, info.Go, info.Platform)
		return err
	}
	return cmd
}

// version is what the program was told, else what the Go toolchain recorded.
func (p *program) version() versionInfo {
	info := versionInfo{Version: p.opts.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if info.Version == "" {
		info.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			info.Revision = setting.Value
		}
	}
	return info
}
