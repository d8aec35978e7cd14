package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goconsumer/consumer/core"
)

func TestTheKitFailsBrokenDrivers(t *testing.T) {
	t.Parallel()
	for _, b := range brokenDrivers() {
		t.Run(b.fault, func(t *testing.T) {
			t.Parallel()
			if b.shape.Name == "" {
				b.shape = Republishing()
			}
			at := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == b.caught })
			if at < 0 {
				t.Fatalf("there is no case %q", b.caught)
			}
			synctest.Test(t, func(t *testing.T) {
				h := newMemoryHarness(b.shape)
				h.wrap = func(d *MemoryDriver) core.Driver { return &brokenDriver{d, b} }
				r := newRecorder(t)
				r.play(func() { Cases()[at].Run(r, h) })
				failures := r.finish()
				if len(failures) == 0 {
					t.Errorf("%q passes", b.caught)
				}
				for _, text := range failures {
					if strings.HasPrefix(text, "panic:") {
						t.Error(text)
					}
					t.Log(text)
				}
			})
		})
	}
}

func brokenDrivers() []broken {
	return []broken{
		{
			fault: "acks before the handler", caught: "what a vanished worker held is delivered again",
			source: received(func(s *brokenSource, d *core.Delivery) bool { succeedNow(s, d); return true }),
		},
		{
			fault: "swallows the error of a settlement", caught: "a settlement that fails leaves the message with the broker and can be repeated",
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				return item, func(error) error { return nil }
			}),
		},
		{
			fault: "acks a retry before it is stored", caught: "what was reported as settled outlives a crash",
			source: settled(func(s *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				if item.Verdict != core.VerdictRetry {
					return item, nil
				}
				time.AfterFunc(time.Millisecond, func() {
					if !s.vanished() {
						s.store(item.Next, item.Delay)
					}
				})
				item.Verdict = core.VerdictDone
				return item, nil
			}),
		},
		{
			fault: "removes every twin at once", caught: "byte-identical messages are all delivered, each settled by itself",
			source: settled(func(s *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				s.m.mu.Lock()
				defer s.m.mu.Unlock()
				mine := item.D.Native.(*claim)
				for _, c := range mine.source.q.claimsInOrder() {
					if c != mine && string(c.msg.body) == string(mine.msg.body) {
						mine.source.q.finish(c)
					}
				}
				return item, nil
			}),
		},
		{
			fault: "charges an attempt on release", caught: "a stop that cannot wait any longer releases without an attempt",
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				if item.Verdict == core.VerdictRelease {
					item.Next = []byte(strings.Replace(string(item.D.Body), `"attempt":1`, `"attempt":2`, 1))
				}
				return item, nil
			}),
		},
		{
			fault: "puts a released message at the end", caught: "a released message comes back first",
			source: settled(func(s *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				if item.Verdict == core.VerdictRelease {
					s.store(item.D.Body, 0)
					item.Verdict = core.VerdictDone
				}
				return item, nil
			}),
		},
		{
			fault: "commits past a gap", caught: "a finished job above a gap is not repeated and the gap is not skipped", shape: Lanes(),
			source: settled(func(s *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				return item, func(err error) error {
					s.m.mu.Lock()
					defer s.m.mu.Unlock()
					msg := item.D.Native.(*claim).msg
					msg.lane.committed = max(msg.lane.committed, msg.offset+1)
					return err
				}
			}),
		},
		{
			fault: "applies a settlement again after a lost reply", caught: "a settlement whose reply was lost is not applied twice",
			source: settled(func(s *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				return item, func(err error) error {
					if errors.Is(err, errReplyLost) && item.Verdict == core.VerdictRetry {
						s.store(item.Next, item.Delay)
					}
					return err
				}
			}),
		},
		{
			fault: "promotes in two steps", caught: "delayed jobs outlive the process that stored them and the one that would have run them",
			source: twoStepPromotion,
		},
		{
			fault: "keeps delayed jobs in the process that published them", caught: "delayed jobs outlive the process that stored them and the one that would have run them",
			port: func(p *brokenPort) {
				p.publish = func(_ context.Context, msgs []core.Message) []error {
					for _, m := range msgs {
						later := m
						later.Delay = 0
						time.AfterFunc(m.Delay, func() { p.PublishPort.Publish(context.Background(), []core.Message{later}) })
					}
					return nil
				}
			},
		},
		{
			fault: "delivers delayed retries early", caught: "a delayed retry is never early and late by no more than stated",
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				item.Delay -= item.Delay / 100
				return item, nil
			}),
		},
		{
			fault: "rounds delays up to seconds", caught: "a delayed publish is never early and late by no more than stated",
			port: func(p *brokenPort) {
				p.publish = func(ctx context.Context, msgs []core.Message) []error {
					for i := range msgs {
						msgs[i].Delay = (msgs[i].Delay + time.Second - 1).Truncate(time.Second)
					}
					return p.PublishPort.Publish(ctx, msgs)
				}
			},
		},
		{
			fault: "takes a stale settlement for a good one", caught: "a stale settlement changes nothing and says so",
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				return item, func(err error) error {
					if errors.Is(err, core.ErrStale) {
						return nil
					}
					return err
				}
			}),
		},
		{
			fault: "stores the retry of a stale delivery", caught: "a stale settlement changes nothing and says so",
			source: settled(func(s *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				return item, func(err error) error {
					if errors.Is(err, core.ErrStale) && item.Verdict == core.VerdictRetry {
						s.store(item.Next, item.Delay)
					}
					return err
				}
			}),
		},
		{
			fault: "never closes Lost", caught: "a stale settlement changes nothing and says so",
			source: received(func(_ *brokenSource, d *core.Delivery) bool { d.Lost = nil; return true }),
		},
		{
			fault: "loses the reason of a dead letter", caught: "outcome: fail",
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				if item.Dead != nil {
					record := *item.Dead
					record.Reason = ""
					item.Dead = &record
				}
				return item, nil
			}),
		},
		{
			fault: "drops dead letters", caught: "outcome: the last attempt's failure is a dead letter",
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				if item.Verdict == core.VerdictDead {
					item.Verdict = core.VerdictDone
				}
				return item, nil
			}),
		},
		{
			fault: "says that a dead letter beyond the cap was stored", caught: "one bad item does not spoil its batch",
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				return item, func(err error) error {
					if errors.Is(err, core.ErrDeadLettersFull) {
						return nil
					}
					return err
				}
			}),
		},
		{
			fault: "releases a dead letter", caught: "a poison message is delivered once and does not loop",
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				if item.Verdict == core.VerdictDead {
					item.Verdict = core.VerdictRelease
				}
				return item, nil
			}),
		},
		{
			fault: "never raises the count of a vanished worker's jobs", caught: "a vanished worker raises the count of what it held and of nothing else",
			source: received(func(_ *brokenSource, d *core.Delivery) bool { d.Found.N = 0; return true }),
		},
		{
			fault: "never raises the count, so that a killer goes on", caught: "a job that kills its worker is stopped and takes no innocent along",
			source: received(func(_ *brokenSource, d *core.Delivery) bool { d.Found.N = 0; return true }),
		},
		{
			fault: "does not store the charge of a suspect", caught: "a suspect is found charged when it vanishes alone",
			source: func(s *brokenSource) {
				s.isolate = func(_ context.Context, d *core.Delivery, charged []byte) (*core.Delivery, error) {
					alone := *d
					alone.Body = charged
					return &alone, nil
				}
			},
		},
		{
			fault: "writes the payload anew", caught: "payload bytes and unknown fields pass through every retry",
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				var v map[string]any
				if json.Unmarshal(item.Next, &v) == nil {
					item.Next, _ = json.Marshal(v)
				}
				return item, nil
			}),
		},
		{
			fault: "forgets to raise the attempt", caught: "attempts are exactly 1, 2, 3",
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				if item.Verdict == core.VerdictRetry {
					item.Next = item.D.Body
				}
				return item, nil
			}),
		},
		{
			fault: "gives more than it is asked for", caught: "Receive returns at most what it is asked for",
			source: func(s *brokenSource) {
				s.receive = func(ctx context.Context, limit int) ([]*core.Delivery, error) {
					return s.Source.Receive(ctx, limit+1)
				}
			},
		},
		{
			fault: "ignores the end of Receive's context", caught: "Receive ends with its context and without an error",
			source: func(s *brokenSource) {
				s.receive = func(_ context.Context, limit int) ([]*core.Delivery, error) {
					return s.Source.Receive(context.Background(), limit)
				}
			},
		},
		{
			fault: "drops what an ended Receive had taken", caught: "what an ended Receive had taken is not lost",
			source: func(s *brokenSource) {
				s.receive = func(ctx context.Context, limit int) ([]*core.Delivery, error) {
					ds, err := s.Source.Receive(ctx, limit)
					select { // the way back from the broker
					case <-time.After(time.Millisecond):
					case <-ctx.Done():
						return nil, nil
					}
					return ds, err
				}
			},
		},
		{
			fault: "hoards", caught: "a source holds no more than it gave out and its stated prefetch",
			source: hoarding,
		},
		{
			fault: "answers one item of a batch twice", caught: "a batch of every verdict is settled item by item",
			source: func(s *brokenSource) {
				s.settle = func(batch []core.Settlement, done func(int, error)) {
					s.Source.Settle(batch, func(i int, err error) { done(max(i, 1), err) })
				}
			},
		},
		{
			fault: "does not answer for a batch's last item", caught: "a batch of every verdict is settled item by item",
			source: func(s *brokenSource) {
				s.settle = func(batch []core.Settlement, done func(int, error)) {
					s.Source.Settle(batch, func(i int, err error) {
						if i < len(batch)-1 || len(batch) == 1 {
							done(i, err)
						}
					})
				}
			},
		},
		{
			fault: "does not give back what it holds when it is closed", caught: "Close gives back what is unsettled, uncharged",
			source: func(s *brokenSource) {
				s.close = func(ctx context.Context) error {
					s.d.Crash()
					return s.Source.Close(ctx)
				}
			},
		},
		{
			fault: "loses the priority of a retried job", caught: "a retried job keeps its priority",
			source: settled(func(s *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				if item.Verdict == core.VerdictRetry {
					s.store(item.Next, item.Delay)
					item.Verdict = core.VerdictDone
				}
				return item, nil
			}),
		},
		{
			fault: "ignores priorities", caught: "higher priorities run first, within a priority the older",
			port: func(p *brokenPort) {
				p.publish = func(ctx context.Context, msgs []core.Message) []error {
					for i := range msgs {
						msgs[i].Priority = core.PriorityNormal
					}
					return p.PublishPort.Publish(ctx, msgs)
				}
			},
		},
		{
			fault: "publishes a batch backwards", caught: "a published batch keeps its order",
			port: func(p *brokenPort) {
				p.publish = func(ctx context.Context, msgs []core.Message) []error {
					slices.Reverse(msgs)
					return p.PublishPort.Publish(ctx, msgs)
				}
			},
		},
		{
			fault: "swallows the errors of a publish", caught: "a failed publish says which messages are not stored",
			port: func(p *brokenPort) {
				p.publish = func(ctx context.Context, msgs []core.Message) []error {
					p.PublishPort.Publish(ctx, msgs)
					return nil
				}
			},
		},
		{
			fault: "names no lanes", caught: "every delivery names its lane", shape: Lanes(),
			source: received(func(_ *brokenSource, d *core.Delivery) bool { d.Lane = ""; return true }),
		},
		{
			fault: "takes results for lanes that it has lost", caught: "lanes that are not drained in time are lost to their old owner", shape: Lanes(),
			source: settled(func(_ *brokenSource, item core.Settlement) (core.Settlement, func(error) error) {
				return item, func(error) error { return nil }
			}),
		},
	}
}
