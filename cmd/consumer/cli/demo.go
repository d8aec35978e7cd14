package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/telemetry"
	"github.com/goconsumer/consumer/processes"
)

// demoLimit is how long the demo may take; it needs about two seconds.
const demoLimit = 45 * time.Second

func (p *program) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "run sample jobs of every outcome on an embedded broker; nothing to install",
		Args:  noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), demoLimit)
		defer cancel()
		if !cmd.Flags().Changed("log-level") {
			p.logger = slog.New(slog.DiscardHandler) // the summary is the story
		}
		d := &demo{program: p, out: cmd.OutOrStdout(), tally: newDemoTally(), kinds: demoKinds()}
		return d.run(ctx)
	}
	return cmd
}

// demo is one run: it publishes, hosts a process until every job has ended, and
// compares what the engine reported with what the broker holds.
type demo struct {
	program *program
	out     io.Writer
	tally   *demoTally
	kinds   []demoKind
}

func (d *demo) run(ctx context.Context) error {
	brokers := d.program.newBrokers(true)
	defer brokers.close()
	endpoint := processes.Endpoint{Name: "demo", URL: "embedded://redis"}
	spec := processes.Spec{
		Name: "demo", Transport: endpoint.Name, Queue: "demo", Concurrency: 8, HandlerTimeout: demoTimeout,
		Retry: core.RetryPolicy{Type: core.RetryExponential, MaxAttempts: 3, BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: time.Second},
	}
	registry := core.NewRegistry()
	for _, kind := range d.kinds {
		if kind.handler != nil {
			if err := registry.Handle(kind.jobType, kind.handler); err != nil {
				return err
			}
		}
	}
	driver, err := brokers.openEndpoint(endpoint)
	if err != nil {
		return err
	}
	defer func() { _ = driver.Close(context.WithoutCancel(ctx)) }()
	binding := core.Binding{Process: spec.Name, Queue: spec.Queue, Concurrency: spec.Concurrency, Logger: d.program.logger}

	messages, err := demoMessages(d.kinds)
	if err != nil {
		return err
	}
	manager, err := processes.New([]processes.Spec{spec}, processes.Options{
		Endpoints: []processes.Endpoint{endpoint},
		Drivers:   brokers.drivers(),
		Registry:  registry,
		Listeners: []core.Listener{d.tally.listen, telemetry.LogListener(d.program.logger, nil)},
		Logger:    d.program.logger,
	})
	if err != nil {
		return err
	}
	d.introduce(len(messages))
	if err := d.host(ctx, manager, driver, binding, messages); err != nil {
		return err
	}
	return d.conclude(ctx, driver, binding, len(messages))
}

// host publishes the messages while the manager runs and stops it when they have
// all ended.
func (d *demo) host(ctx context.Context, manager *processes.Manager, driver core.Driver, binding core.Binding, messages []core.Message) error {
	hosting, stop := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop(nil)
	wg.Go(func() { stop(manager.Run(hosting)) }) // it may end by itself, with a reason

	port, err := driver.OpenPublisher(ctx, binding)
	if err != nil {
		return err
	}
	if err := errors.Join(port.Publish(ctx, messages)...); err != nil {
		return fmt.Errorf("publish the sample jobs: %w", err)
	}
	if err := port.Close(ctx); err != nil {
		return err
	}
	return d.awaitAll(hosting, len(messages))
}

// awaitAll waits until every published job has ended, with a progress bar where a
// person watches.
func (d *demo) awaitAll(ctx context.Context, published int) error {
	var bars *mpb.Progress
	var bar *mpb.Bar
	if stderr := d.program.process.Stderr; isTerminal(stderr) {
		bars = mpb.New(mpb.WithOutput(stderr), mpb.WithWidth(48))
		bar = bars.AddBar(int64(published), mpb.PrependDecorators(decor.Name("jobs ended "), decor.CountersNoUnit("%d / %d")))
		defer bars.Shutdown()
	}
	for d.tally.total() < published {
		if bar != nil {
			bar.SetCurrent(int64(d.tally.total()))
		}
		select {
		case <-d.tally.ended:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return fmt.Errorf("only %d of %d jobs ended within %s: run consumer demo --log-level=debug and look at the log", d.tally.total(), published, demoLimit)
			}
			return context.Cause(ctx)
		}
	}
	if bar != nil {
		bar.SetCurrent(int64(published))
		bars.Wait()
	}
	return nil
}

func (d *demo) introduce(published int) {
	fmt.Fprintf(d.out, "%d sample jobs on an embedded Redis, one process with 8 handlers:\n\n", published)
	t := newTable(d.out, "type", "jobs", "what it does")
	for _, kind := range d.kinds {
		t.AppendRow([]any{kind.jobType, kind.count, kind.story})
	}
	t.AppendRow([]any{"demo.success", 2, "is past its deadline: discarded as expired"})
	t.AppendRow([]any{"(malformed)", 1, "is no envelope: dead letter with the raw bytes"})
	t.Render()
	fmt.Fprintln(d.out)
}

// conclude prints the summary. It is an error when the numbers do not add up, or
// when the broker holds something else than they say.
func (d *demo) conclude(ctx context.Context, driver core.Driver, binding core.Binding, published int) error {
	tally := d.tally
	tally.mu.Lock()
	defer tally.mu.Unlock()
	success, discarded, dead := tally.outcomes[core.OutcomeSuccess], tally.outcomes[core.OutcomeDiscarded], tally.outcomes[core.OutcomeDead]

	t := newTable(d.out, "outcome", "jobs")
	t.AppendRow([]any{"success", success})
	t.AppendRow([]any{"discarded", discarded})
	for _, reason := range slices.Sorted(maps.Keys(tally.reasons)) {
		t.AppendRow([]any{"dead: " + reason, tally.reasons[reason]})
	}
	t.Render()
	fmt.Fprintf(d.out, "\non the way there: %s, %s\n", counted(tally.retries, "retry", "retries"), counted(tally.deferred, "deferral", "deferrals"))

	held, err := heldByBroker(ctx, driver, binding)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "demo: published=%d success=%d discarded=%d dead=%d\n", published, success, discarded, dead)
	switch {
	case published != success+discarded+dead:
		return fmt.Errorf("the summary does not add up: %d published, %d ended", published, success+discarded+dead)
	case held.waiting != 0 || held.dead != int64(dead):
		return fmt.Errorf("the broker holds %d waiting jobs and %d dead letters, the summary says 0 and %d", held.waiting, held.dead, dead)
	}
	return nil
}

type brokerHoldings struct{ waiting, dead int64 }

// heldByBroker asks the broker itself what is left.
func heldByBroker(ctx context.Context, driver core.Driver, binding core.Binding) (brokerHoldings, error) {
	inspector, ok := driver.(core.Inspector)
	if !ok {
		return brokerHoldings{}, errors.New("the embedded broker does not tell what it holds")
	}
	stats, err := inspector.Inspect(ctx, binding)
	if err != nil {
		return brokerHoldings{}, fmt.Errorf("ask the broker what it holds: %w", err)
	}
	var held brokerHoldings
	for _, n := range []*int64{stats.Ready, stats.Delayed, stats.InFlight} {
		if n != nil {
			held.waiting += *n
		}
	}
	if stats.Dead != nil {
		held.dead = *stats.Dead
	}
	return held, nil
}
