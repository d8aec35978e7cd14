package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goconsumer/consumer/core"
)

// shelf is a store in memory with pages of three.
type shelf struct {
	entries   []string // oldest first
	failAfter int      // removals that work; -1 = all
}

func (s *shelf) Count(context.Context) (int64, error) { return int64(len(s.entries)), nil }

func (s *shelf) Visit(_ context.Context, visit func(Page) error) error {
	for kept := 0; kept < len(s.entries); {
		page := &shelfPage{shelf: s}
		for _, stored := range s.entries[kept:min(kept+3, len(s.entries))] {
			page.entries = append(page.entries, Read([]byte(stored)))
		}
		if err := visit(page); errors.Is(err, ErrEnough) {
			return nil
		} else if err != nil {
			return err
		}
		kept += len(page.entries) - page.removed
	}
	return nil
}

type shelfPage struct {
	shelf   *shelf
	entries []*Entry
	removed int
}

func (p *shelfPage) Entries() []*Entry { return p.entries }

func (p *shelfPage) Remove(_ context.Context, entries []*Entry) (int, error) {
	s := p.shelf
	for i, e := range entries {
		if s.failAfter == 0 {
			return i, errors.New("the store is gone")
		}
		s.failAfter--
		at := slices.Index(s.entries, string(e.Stored))
		s.entries = slices.Delete(s.entries, at, at+1)
		p.removed++
	}
	return len(entries), nil
}

// desk is a shelf that can move entries to its own queue.
type desk struct {
	*shelf
	own *queue
}

func (d *desk) Visit(ctx context.Context, visit func(Page) error) error {
	return d.shelf.Visit(ctx, func(p Page) error { return visit(&deskPage{p.(*shelfPage), d}) })
}

type deskPage struct {
	*shelfPage
	desk *desk
}

func (p *deskPage) Move(ctx context.Context, to Target, entries []*Entry, msgs []core.Message) (int, error) {
	if to != Target(p.desk.own) {
		return 0, errors.ErrUnsupported
	}
	p.desk.own.Publish(ctx, msgs)
	p.desk.own.sizes = append(p.desk.own.sizes, len(msgs))
	return p.Remove(ctx, entries)
}

// queue is a target that takes messages until it breaks.
type queue struct {
	got     []core.Message
	sizes   []int // of batches that were moved
	refuses func(core.Message) bool
}

func (q *queue) Publish(_ context.Context, msgs []core.Message) []error {
	errs := make([]error, len(msgs))
	failed := false
	for i, m := range msgs {
		if q.refuses != nil && q.refuses(m) {
			errs[i], failed = errors.New("refused"), true
			continue
		}
		q.got = append(q.got, m)
	}
	if !failed {
		return nil
	}
	return errs
}

func (q *queue) ids() (ids []string) {
	for _, m := range q.got {
		ids = append(ids, m.ID)
	}
	return ids
}

func record(id, jobType, reason string, at int64) string {
	return fmt.Sprintf(`{"job":{"v":1,"jobId":%q,"jobType":%q,"payload":{},"meta":{},"attempt":5,"maxAttempts":5,"createdAt":1},"error":"error of %s","at":%d,"reason":%q,"queue":"orders"}`, id, jobType, id, at, reason)
}

func stock() *shelf {
	s := &shelf{failAfter: -1}
	for i := range 10 {
		s.entries = append(s.entries, record(fmt.Sprintf("j%d", i), []string{"order.paid", "mail.send"}[i%2], []string{"failed", "exhausted"}[i/5], int64(1000+i)))
	}
	s.entries = slices.Insert(s.entries, 4, "garbage")
	return s
}

func TestReplayResetsTheJobAndNothingElse(t *testing.T) {
	t.Parallel()
	body := `{"v":2,"jobId":"j1","jobType":"t","payload":{"n":9007199254740993,"e":{}},"meta":{"crashes":2,"tenantId":"a","deferred":3,"replayed":4,"lastError":"x","deadline":DUE,"priority":"high","partitionKey":"k"},"attempt":4,"maxAttempts":7,"createdAt":12,"extra":[1.0]}`
	now := time.Now().UnixMilli()
	for deadline, kept := range map[string]string{fmt.Sprint(now - 1000): "", fmt.Sprint(now + 3_600_000): fmt.Sprintf(`"deadline":%d,`, now+3_600_000)} {
		s := &shelf{failAfter: -1, entries: []string{`{"job":` + strings.Replace(body, "DUE", deadline, 1) + `,"error":"e","at":1}`}}
		q := &queue{}
		report, err := Replay(t.Context(), s, q, Filter{}, ReplayOptions{})
		if err != nil || report != (Report{Visited: 1, Replayed: 1}) || len(s.entries) != 0 || len(q.got) != 1 {
			t.Fatalf("report %+v, %v; left %q", report, err, s.entries)
		}
		want := `{"v":2,"jobId":"j1","jobType":"t","payload":{"n":9007199254740993,"e":{}},"meta":{"tenantId":"a","replayed":5,` + kept + `"priority":"high","partitionKey":"k"},"attempt":1,"maxAttempts":7,"createdAt":12,"extra":[1.0]}`
		m := q.got[0]
		if string(m.Body) != want || m.ID != "j1" || m.Type != "t" || m.Key != "k" || m.Priority != core.PriorityHigh {
			t.Fatalf("got  %s\nwant %s\n%+v", m.Body, want, m)
		}
	}
}

func TestReplayChoosesByEveryFilter(t *testing.T) {
	t.Parallel()
	all := []string{"j0", "j1", "j2", "j3", "j4", "j5", "j6", "j7", "j8", "j9"}
	for name, c := range map[string]struct {
		filter     Filter
		want       []string
		unreadable int
	}{
		"none":       {Filter{}, all, 1},
		"type":       {Filter{Type: "order.*"}, []string{"j0", "j2", "j4", "j6", "j8"}, 0},
		"middle":     {Filter{Type: "*i*.s*d"}, []string{"j1", "j3", "j5", "j7", "j9"}, 0},
		"reason":     {Filter{Reason: "exhausted"}, all[5:], 0},
		"error":      {Filter{Error: "of j7"}, []string{"j7"}, 0},
		"since":      {Filter{Since: time.Unix(1007, 0)}, all[7:], 0},
		"until":      {Filter{Until: time.Unix(1002, 0), Type: "*"}, all[:2], 0},
		"id":         {Filter{ID: "j3"}, []string{"j3"}, 0},
		"unknown id": {Filter{ID: "j33"}, nil, 0},
		"limit":      {Filter{Type: "*", Limit: 4}, all[:4], 0},
		"together":   {Filter{Type: "mail.send", Reason: "exhausted", Limit: 2}, []string{"j5", "j7"}, 0},
	} {
		s, q := stock(), &queue{}
		report, err := Replay(t.Context(), s, q, c.filter, ReplayOptions{Batch: 2})
		if err != nil || report.Replayed != len(c.want) || report.Unreadable != c.unreadable || !slices.Equal(q.ids(), c.want) {
			t.Errorf("%s: %+v, %v, %q", name, report, err, q.ids())
		}
		if len(s.entries) != 11-len(c.want) {
			t.Errorf("%s: %d entries are left", name, len(s.entries))
		}
	}
}

func TestReplayLeavesWhatWasNotConfirmed(t *testing.T) {
	t.Parallel()
	s, q := stock(), &queue{refuses: func(m core.Message) bool { return m.ID == "j4" }}
	report, err := Replay(t.Context(), s, q, Filter{}, ReplayOptions{})
	if err == nil || !strings.Contains(err.Error(), "j4") || report.Replayed != len(q.got) {
		t.Fatalf("%+v, %v", report, err)
	}
	if n := len(s.entries) + len(q.got); n != 11 {
		t.Fatalf("%d entries and jobs of 11", n)
	}
	if !strings.Contains(strings.Join(s.entries, ""), `"j4"`) {
		t.Fatal("the refused one is gone")
	}
}

func TestReplaySaysWhatMayRunTwice(t *testing.T) {
	t.Parallel()
	s, q := stock(), &queue{}
	s.failAfter = 3
	report, err := Replay(t.Context(), s, q, Filter{}, ReplayOptions{})
	if err == nil || report.Doubled == 0 || report.Replayed+report.Doubled != len(q.got) {
		t.Fatalf("%+v, %v, published %d", report, err, len(q.got))
	}
}

// A kill after the nth publish doubles what was published and not yet removed.
func TestReplayRemovesEachBatchBeforeItPublishesTheNext(t *testing.T) {
	t.Parallel()
	s, q := stock(), &queue{}
	q.refuses = func(core.Message) bool {
		if n := len(s.entries) + len(q.got) - 11; n < 0 || n > 1 {
			t.Errorf("%d jobs are there twice while a batch of 2 is published", n)
		}
		return false
	}
	if _, err := Replay(t.Context(), s, q, Filter{}, ReplayOptions{Batch: 2}); err != nil || len(q.got) != 10 {
		t.Fatalf("%v, %d published", err, len(q.got))
	}
}

func TestReplayMovesWhereTheStoreCan(t *testing.T) {
	t.Parallel()
	d := &desk{stock(), &queue{}}
	report, err := Replay(t.Context(), d, d.own, Filter{}, ReplayOptions{Batch: 2})
	if err != nil || report != (Report{Visited: 11, Replayed: 10, Unreadable: 1}) || len(d.entries) != 1 {
		t.Fatalf("%+v, %v, left %q", report, err, d.entries)
	}
	if !slices.IsSorted(d.own.ids()) || slices.Max(d.own.sizes) != 2 {
		t.Fatalf("moved %q in batches of %d", d.own.ids(), d.own.sizes)
	}
	other := &queue{}
	d = &desk{stock(), &queue{}}
	report, err = Replay(t.Context(), d, other, Filter{}, ReplayOptions{})
	if err != nil || report.Replayed != 10 || len(d.own.got) != 0 || !slices.IsSorted(other.ids()) || len(d.entries) != 1 {
		t.Fatalf("to another target: %+v, %v, %q", report, err, other.ids())
	}
	d = &desk{stock(), &queue{}}
	d.failAfter = 3
	report, err = Replay(t.Context(), d, d.own, Filter{}, ReplayOptions{Batch: 2})
	if err == nil || report.Replayed != 3 || report.Doubled != 0 {
		t.Fatalf("a move that fails: %+v, %v", report, err)
	}
}

func TestReplayDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	s, q := stock(), &queue{}
	report, err := Replay(t.Context(), s, q, Filter{}, ReplayOptions{DryRun: true})
	if err != nil || report != (Report{Visited: 11, Replayed: 10, Unreadable: 1}) || len(s.entries) != 11 || len(q.got) != 0 {
		t.Fatalf("%+v, %v", report, err)
	}
}

func TestReplayKeepsTheRateAndTellsItsProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []int
		start := time.Now()
		_, err := Replay(t.Context(), stock(), &queue{}, Filter{}, ReplayOptions{Rate: 5, Batch: 1, Progress: func(r Report) { told = append(told, r.Replayed) }})
		if took := time.Since(start); err != nil || took != 2*time.Second {
			t.Fatalf("10 jobs at 5/s took %s, %v", took, err)
		}
		if told = slices.Compact(told); !slices.Equal(told, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
			t.Fatalf("progress %v", told)
		}
		ctx, cancel := context.WithCancel(t.Context())
		q := &queue{}
		_, err = Replay(ctx, stock(), q, Filter{}, ReplayOptions{Rate: 5, Batch: 1, Progress: func(Report) { cancel() }})
		if !errors.Is(err, context.Canceled) || len(q.got) != 1 {
			t.Fatalf("cancelled after the first: %v, %d published", err, len(q.got))
		}
	})
}

func TestSelectStopsAtTheLimit(t *testing.T) {
	t.Parallel()
	var ids []string
	err := Select(t.Context(), stock(), Filter{Type: "mail.*", Limit: 2}, func(e *Entry) error {
		ids = append(ids, e.ID)
		return nil
	})
	if err != nil || !slices.Equal(ids, []string{"j1", "j3"}) {
		t.Fatalf("%q, %v", ids, err)
	}
}
