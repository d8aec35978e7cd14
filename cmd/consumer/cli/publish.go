package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/goconsumer/consumer/cmd/consumer/config"
	"github.com/goconsumer/consumer/core"
)

// publishBatch is how many jobs are confirmed in one round trip.
const publishBatch = 256

// publishFlags are the flags of `publish`.
type publishFlags struct {
	process  string
	jobType  string
	payload  string
	meta     []string
	delay    time.Duration
	priority string
	count    int
	file     string
}

func (p *program) publishCommand() *cobra.Command {
	var flags publishFlags
	cmd := &cobra.Command{
		Use:   "publish --process=NAME (--type=TYPE [--payload=JSON] | --file=FILE)",
		Short: "publish jobs and print the id of each one that the broker confirmed",
		Args:  noArgs,
	}
	f := cmd.Flags()
	f.StringVar(&flags.process, "process", "", "the process whose queue gets the jobs")
	f.StringVar(&flags.jobType, "type", "", "job type")
	f.StringVar(&flags.payload, "payload", "{}", "payload: a JSON object or list, stored byte for byte")
	f.StringArrayVar(&flags.meta, "meta", nil, "meta member `k=v`, repeatable; v is a string except where the envelope has a number or object")
	f.DurationVar(&flags.delay, "delay", 0, "run not before this much time has passed, e.g. 5s")
	f.StringVar(&flags.priority, "priority", "", "critical, high, medium, normal, low or a number")
	f.IntVar(&flags.count, "count", 1, "how many jobs, each with an id of its own")
	f.StringVar(&flags.file, "file", "", "publish each line of this file (- is stdin): an envelope or a dead-letter record")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if flags.file != "" {
			for _, other := range []string{"type", "payload", "meta", "priority", "count"} {
				if cmd.Flags().Changed(other) {
					return usageErrorf("--file and --%s exclude each other: a line of the file has all of the job", other)
				}
			}
		}
		return p.publish(cmd, flags)
	}
	return cmd
}

func (p *program) publish(cmd *cobra.Command, flags publishFlags) error {
	ctx := cmd.Context()
	if flags.delay < 0 {
		return usageErrorf("--delay=%s is negative", flags.delay)
	}
	cfg, err := p.loadConfig()
	if err != nil {
		return err
	}
	process, err := p.pickOne(cfg, flags.process)
	if err != nil {
		return err
	}
	if flags.priority != "" && process.Priority == core.PriorityNone {
		return usageErrorf("process %s has priority: none, so --priority would be ignored: leave it out, or set priority: levels", process.Name)
	}
	var jobs iter.Seq2[*core.Job, error]
	var total int
	if flags.file != "" {
		lines, err := openLines(ctx, flags.file, cmd.InOrStdin())
		if err != nil {
			return err
		}
		defer lines.close()
		jobs, total = lines.jobs(), lines.total
	} else {
		template, err := flags.job()
		if err != nil {
			return err
		}
		jobs, total = copies(template, flags.count), flags.count
	}
	return p.publishAll(cmd, cfg, process, jobs, total, flags.delay)
}

// job is what --type, --payload, --meta and --priority describe.
func (f publishFlags) job() (*core.Job, error) {
	switch {
	case f.jobType == "":
		return nil, usageErrorf("--type is missing (or --file, for a file of jobs)")
	case f.count < 1:
		return nil, usageErrorf("--count=%d: publish at least 1", f.count)
	}
	if strings.TrimSpace(f.payload) == "" { // most likely a variable that is not set
		return nil, usageErrorf("--payload is empty: write --payload='{}' or leave it out")
	}
	job, err := core.NewJob(f.jobType, json.RawMessage(f.payload))
	if err != nil {
		return nil, usageErrorf("--payload: %w", err)
	}
	for _, kv := range f.meta {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			return nil, usageErrorf("--meta=%q is not k=v", kv)
		}
		if err := job.Meta.Set(key, metaValue(key, value)); err != nil {
			return nil, usageErrorf("--meta %s: %w", key, err)
		}
		if want := wanted(&job.Meta, key); want != "" {
			return nil, usageErrorf("--meta %s=%s would have no effect: %s must be %s", key, value, key, want)
		}
	}
	if f.priority != "" {
		if err := job.Meta.Set("priority", metaValue("priority", f.priority)); err != nil {
			return nil, usageErrorf("--priority: %w", err)
		}
		if _, known := job.Meta.Priority(); !known {
			return nil, usageErrorf("--priority=%s is none of critical, high, medium, normal, low or a number", f.priority)
		}
	}
	return job, nil
}

// metaValue is text, or the JSON value that it spells for the members that are
// numbers or objects in an envelope.
func metaValue(key, text string) any {
	switch key {
	case "priority", "timeoutMs", "deadline", "backoff", "crashes", "deferred", "replayed":
		if json.Valid([]byte(text)) {
			return json.RawMessage(text)
		}
	}
	return text
}

// wanted says what a member that steers the job must be, when it is something
// else and so would be ignored.
func wanted(meta *core.Meta, key string) string {
	_, hasPriority := meta.Priority()
	_, hasDeadline := meta.Deadline()
	switch {
	case key == "priority" && !hasPriority:
		return "critical, high, medium, normal, low or a number"
	case key == "deadline" && !hasDeadline:
		return "a time in unix milliseconds"
	case key == "timeoutMs" && meta.Timeout() <= 0:
		return "a number of milliseconds"
	case key == "backoff" && meta.Backoff() == nil:
		return `an object like {"type":"fixed","delay":1000}`
	}
	return ""
}

// copies makes n jobs like template, each with an id of its own.
func copies(template *core.Job, n int) iter.Seq2[*core.Job, error] {
	return func(yield func(*core.Job, error) bool) {
		for range n {
			job := *template
			job.ID = core.NewID()
			if !yield(&job, nil) {
				return
			}
		}
	}
}

// publishAll publishes in batches and prints the ids that are confirmed, in
// order. Anything else is an error that says how many were not.
func (p *program) publishAll(cmd *cobra.Command, cfg *config.Config, process *config.Process, jobs iter.Seq2[*core.Job, error], total int, delay time.Duration) error {
	ctx := cmd.Context()
	brokers := p.newBrokers(false)
	defer brokers.close()
	port, closePort, err := brokers.port(ctx, cfg, process)
	if err != nil {
		return brokerError(err)
	}
	defer closePort()
	publisher := core.NewPublisher(port, core.WithFormat(process.Format))
	policy, err := retryPolicy(process)
	if err != nil {
		return err
	}

	var ids bytes.Buffer
	confirmed := 0
	var failed error
	for batch, err := range batches(jobs, delay) {
		if err != nil {
			return err
		}
		for _, out := range batch {
			if out.Job.MaxAttempts == 0 {
				out.Job.MaxAttempts = policy.MaxAttempts(out.Job.Type)
			}
		}
		errs := publisher.PublishBatch(ctx, batch)
		for i, out := range batch {
			if errs != nil && errs[i] != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", out.Job.ID, errs[i]))
				continue
			}
			confirmed++
			fmt.Fprintln(&ids, out.Job.ID)
		}
		if _, err := ids.WriteTo(cmd.OutOrStdout()); err != nil {
			return fmt.Errorf("print ids: %w", err)
		}
		if failed != nil {
			break
		}
	}
	if failed == nil {
		return nil
	}
	first, _, _ := strings.Cut(failed.Error(), "\n")
	if confirmed == 0 {
		return &exitError{exitCode(brokerError(failed)), fmt.Errorf("none of %s is confirmed; publish again (%s)", counted(total, "job", "jobs"), first)}
	}
	return &exitError{ExitFailed, fmt.Errorf("%d of %d jobs are confirmed, their ids are on stdout; publish the others again (%s)", confirmed, total, first)}
}

// retryPolicy is what the process grants its jobs.
func retryPolicy(process *config.Process) (*core.Policy, error) {
	policy := &core.Policy{Retry: process.Retry}
	for _, rule := range process.RetryTypes {
		if err := policy.RetryFor(rule.Pattern, rule.Policy); err != nil {
			return nil, &exitError{ExitConfig, err}
		}
	}
	return policy, nil
}

// batches groups jobs for publishing; it stops at the first error.
func batches(jobs iter.Seq2[*core.Job, error], delay time.Duration) iter.Seq2[[]core.Outgoing, error] {
	return func(yield func([]core.Outgoing, error) bool) {
		var batch []core.Outgoing
		for job, err := range jobs {
			if err != nil {
				yield(nil, err)
				return
			}
			batch = append(batch, core.Outgoing{Job: job, Delay: delay})
			if len(batch) == publishBatch {
				if !yield(batch, nil) {
					return
				}
				batch = nil
			}
		}
		if len(batch) > 0 {
			yield(batch, nil)
		}
	}
}
