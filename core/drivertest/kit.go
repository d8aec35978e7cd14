package drivertest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
)

// kit is one case's bench: one queue, its ledger, and helpers that fail the
// case with a sentence.
type kit struct {
	testing.TB
	h      Harness
	limits Limits
	b      core.Binding
	ledger *ledger
	quit   context.Context // ends after the case, before its clean-up
}

func newKit(t testing.TB, h Harness) *kit {
	limits := h.Limits()
	limits.Patience = cmp.Or(limits.Patience, 10*time.Second)
	return &kit{TB: t, h: h, limits: limits, b: bindingOf(t, h), ledger: newLedger(), quit: t.Context()}
}

// open connects one more OS process for the length of the case.
func (k *kit) open() core.Driver {
	k.Helper()
	d := k.h.Open(k)
	k.Cleanup(func() {
		ctx, cancel := k.ending()
		defer cancel()
		_ = d.Close(ctx)
	})
	return d
}

// source subscribes without an engine.
func (k *kit) source(d core.Driver, n core.Notices) core.Source {
	k.Helper()
	s, err := d.OpenSource(k.quit, k.b, n)
	if err != nil {
		k.Fatalf("open source: %v", err)
	}
	k.Cleanup(func() {
		ctx, cancel := k.ending()
		defer cancel()
		_ = s.Close(ctx) // the case may have closed it, or crashed its process
	})
	return s
}

// ending is a context for closing things in clean-ups.
func (k *kit) ending() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), k.limits.Patience)
}

func (k *kit) port(d core.Driver) core.PublishPort {
	k.Helper()
	p, err := d.OpenPublisher(k.quit, k.b)
	if err != nil {
		k.Fatalf("open publisher: %v", err)
	}
	k.Cleanup(func() {
		ctx, cancel := k.ending()
		defer cancel()
		_ = p.Close(ctx)
	})
	return p
}

// job makes an envelope with an id of its own choice.
func (k *kit) job(id, jobType string) *core.Job {
	k.Helper()
	j, err := core.NewJob(jobType, nil)
	if err != nil {
		k.Fatalf("make job: %v", err)
	}
	j.ID = id
	return j
}

// jobs makes n of them: name-0, name-1, …
func (k *kit) jobs(n int, name, jobType string) []*core.Job {
	k.Helper()
	out := make([]*core.Job, n)
	for i := range out {
		out[i] = k.job(fmt.Sprintf("%s-%d", name, i), jobType)
	}
	return out
}

func envelope(j *core.Job) core.Message {
	p, _ := j.Meta.Priority()
	return core.Message{Body: j.Append(nil), ID: j.ID, Type: j.Type, Key: j.Meta.PartitionKey(), Priority: p}
}

// publish stores jobs, in this order, and notes their ids in the ledger.
func (k *kit) publish(d core.Driver, jobs ...*core.Job) {
	k.Helper()
	msgs := make([]core.Message, len(jobs))
	for i, j := range jobs {
		msgs[i] = envelope(j)
	}
	k.send(d, msgs...)
}

// send stores messages that are no envelopes, or not made by this program.
func (k *kit) send(d core.Driver, msgs ...core.Message) {
	k.Helper()
	for i, err := range k.port(d).Publish(k.quit, msgs) {
		if err != nil {
			k.Fatalf("publish message %d: %v", i, err)
		}
	}
	for _, m := range msgs {
		k.ledger.published(m.ID)
	}
}

// receive takes n deliveries, however many calls that needs.
func (k *kit) receive(s core.Source, n int) []*core.Delivery {
	k.Helper()
	return k.receiveWithin(s, n, k.limits.Patience)
}

func (k *kit) receiveWithin(s core.Source, n int, within time.Duration) []*core.Delivery {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.quit, within)
	defer cancel()
	var all []*core.Delivery
	for len(all) < n {
		ds, err := s.Receive(ctx, n-len(all))
		if err != nil && !k.pause(ctx) {
			k.Fatalf("receive: %v", err)
		}
		if len(ds) > n-len(all) {
			k.Fatalf("Receive was asked for %d and gave %d", n-len(all), len(ds))
		}
		all = append(all, ds...)
		if ctx.Err() != nil && len(all) < n {
			k.Fatalf("received %d of %d messages within %v: %s", len(all), n, within, ids(all))
		}
	}
	return all
}

// pause waits a little before something is tried again.
func (k *kit) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(10 * time.Millisecond):
		return true
	}
}

// receiveNothing makes sure that nothing comes for a while.
func (k *kit) receiveNothing(s core.Source, within time.Duration) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.quit, within)
	defer cancel()
	ds, err := s.Receive(ctx, 16)
	if len(ds) > 0 || err != nil {
		k.Fatalf("received %s (error %v), want nothing for %v", ids(ds), err, within)
	}
}

// settle settles a batch and waits for every answer, each exactly once.
func (k *kit) settle(s core.Source, batch ...core.Settlement) []error {
	k.Helper()
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, 2*len(batch))
	s.Settle(batch, func(i int, err error) { answers <- answer{i, err} })
	errs := make([]error, len(batch))
	seen := make([]bool, len(batch))
	limit := time.NewTimer(k.limits.Patience)
	defer limit.Stop()
	for range batch {
		select {
		case a := <-answers:
			if seen[a.i] {
				k.Fatalf("Settle answered item %d twice", a.i)
			}
			seen[a.i], errs[a.i] = true, a.err
		case <-limit.C:
			k.Fatalf("Settle left items unanswered after %v: %v", k.limits.Patience, seen)
		}
	}
	return errs
}

// mustSettle settles a batch of which every item must become durable.
func (k *kit) mustSettle(s core.Source, batch ...core.Settlement) {
	k.Helper()
	for i, err := range k.settle(s, batch...) {
		if err != nil {
			k.Fatalf("settle item %d (verdict %d): %v", i, batch[i].Verdict, err)
		}
	}
}

func (k *kit) done(s core.Source, ds ...*core.Delivery) {
	k.Helper()
	batch := make([]core.Settlement, len(ds))
	for i, d := range ds {
		batch[i] = core.Settlement{D: d, Verdict: core.VerdictDone}
	}
	k.mustSettle(s, batch...)
}

// await polls what has no signal: the broker's own view.
func (k *kit) await(what string, within time.Duration, holds func() bool) {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.quit, within)
	defer cancel()
	for !holds() {
		if !k.pause(ctx) {
			k.Fatalf("not within %v: %s", within, what)
		}
	}
}

// awaitEmpty waits until nothing but dead letters is left of the queue.
func (k *kit) awaitEmpty() {
	k.Helper()
	k.await("the queue is empty", k.limits.Patience, func() bool { return k.h.Held(k, k.b).Waiting() == 0 })
}

// conserved checks that every published id is finished or still at the broker.
func (k *kit) conserved() {
	k.Helper()
	held := k.h.Held(k, k.b).IDs() // before the ledger is read
	for _, id := range k.ledger.unfinished() {
		if !slices.Contains(held, id) {
			k.Errorf("job %s is lost: neither finished nor at the broker", id)
		}
	}
}

// ids names deliveries in messages of failure.
func ids(ds []*core.Delivery) []string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = idOf(d.Body)
	}
	return out
}

func idOf(body []byte) string {
	if all := (Held{Ready: [][]byte{body}}).IDs(); len(all) == 1 {
		return all[0]
	}
	return fmt.Sprintf("%.40q", body)
}

// short is the context of one look at a source.
func (k *kit) short() (context.Context, context.CancelFunc) {
	return context.WithTimeout(k.quit, soon)
}
