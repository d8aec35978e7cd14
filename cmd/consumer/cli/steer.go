package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
)

const (
	pauseTimeout = 5 * time.Second  // for the broker's answer
	steerMargin  = 30 * time.Second // for the host's, beyond the process's shutdown_timeout
)

// steerCommands change what a running host does, without a signal.
func (p *program) steerCommands() []*cobra.Command {
	return []*cobra.Command{
		p.steerCommand("pause", "stop fetching, running jobs finish; at the broker where it keeps that, for every host", p.pause),
		p.steerCommand("resume", "fetch again after a pause", p.pause),
		p.steerCommand("restart", "stop a process of the running host softly and start it again", p.askHost),
		p.steerCommand("start", "start a process of the running host that was stopped or has failed", p.askHost),
		p.steerCommand("stop", "stop a process of the running host softly; the host goes on", p.askHost),
	}
}

// steered is one line of what such a verb did.
type steered struct {
	Process string `json:"process"`
	State   string `json:"state"`
	Where   string `json:"where"` // a broker's queue, or a host's admin address
}

type steer func(ctx context.Context, verb string, cfg *config.Config, process *config.Process) (steered, error)

func (p *program) steerCommand(verb, does string, do steer) *cobra.Command {
	var named []string
	cmd := &cobra.Command{Use: verb + " --process=NAME[,NAME…]", Short: does, Args: noArgs}
	cmd.Flags().StringSliceVar(&named, "process", nil, "names of the processes")
	output := addOutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := p.loadConfig()
		if err != nil {
			return err
		}
		if len(named) == 0 {
			return usageErrorf("--process is missing: %s", knownProcesses(cfg))
		}
		picked, err := p.pick(cfg, named)
		if err != nil {
			return err
		}
		done := []steered{}
		var failed error
		for _, process := range picked {
			result, err := do(cmd.Context(), verb, cfg, process)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("process %s: %w", process.Name, err))
				continue
			}
			done = append(done, result)
		}
		if *output == outputJSON {
			return errors.Join(writeJSON(cmd.OutOrStdout(), done), failed)
		}
		for _, result := range done {
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s (%s)\n", result.Process, result.State, result.Where)
		}
		return failed
	}
	return cmd
}

// pause pauses or resumes at the broker, or on the host where the broker does not
// keep it.
func (p *program) pause(ctx context.Context, verb string, cfg *config.Config, process *config.Process) (steered, error) {
	brokers := p.newBrokers(false)
	defer brokers.close()
	if isEmbedded(cfg, process.Transport) {
		return p.askHost(ctx, verb, cfg, process) // the broker is inside the host
	}
	driver, err := brokers.open(cfg, process)
	if err != nil {
		return steered{}, err
	}
	defer func() { _ = driver.Close(context.WithoutCancel(ctx)) }()
	pauser, ok := driver.(core.QueuePauser)
	if !ok {
		return p.askHost(ctx, verb, cfg, process)
	}
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	if err := pauser.PauseQueue(ctx, binding(process, p.logger), verb == "pause"); err != nil {
		return steered{}, brokerError(err)
	}
	return steered{process.Name, verb + "d", "queue " + process.Queue + " on every host"}, nil
}

// askHost asks the host that answers at the config's admin address.
func (p *program) askHost(ctx context.Context, verb string, cfg *config.Config, process *config.Process) (steered, error) {
	if cfg.Admin == nil {
		return steered{}, &exitError{ExitConfig, fmt.Errorf("%s has no admin address, so its host cannot be asked; add admin: {listen: \"127.0.0.1:9090\"} and restart it", cfg.Path)}
	}
	address := adminAddress(cfg.Admin.Listen)
	ctx, cancel := context.WithTimeout(ctx, process.ShutdownTimeout+steerMargin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/api/v1/processes/"+url.PathEscape(process.Name)+"/"+verb, http.NoBody)
	if err != nil {
		return steered{}, err
	}
	if cfg.Admin.Token != "" {
		request.Header.Set("Authorization", "Bearer "+cfg.Admin.Token)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // straight to the host, past any proxy
	response, err := client.Do(request)
	if err != nil {
		return steered{}, fmt.Errorf("no host answers at %s (%w); start one with %s run", address, reason(err), p.opts.Name)
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		State  string `json:"state"`
		Detail string `json:"detail"`
	}
	err = json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&answer)
	if response.StatusCode != http.StatusOK {
		return steered{}, fmt.Errorf("the host at %s says: %s", address, cmp.Or(answer.Detail, response.Status))
	}
	if err != nil {
		return steered{}, fmt.Errorf("the host at %s gave an answer that is no JSON: %w", address, err)
	}
	return steered{process.Name, answer.State, "host at " + address}, nil
}

// adminAddress is where a host on this machine that listens at listen is reached.
func adminAddress(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return listen
}

// reason is an HTTP client's error without the request that it repeats.
func reason(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
