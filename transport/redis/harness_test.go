package redis

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/internal/testredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for something that should happen.
const patience = 20 * time.Second

// quick are options that make leases and sweeps short enough for tests.
var quick = Options{Lease: time.Second, Sweep: 200 * time.Millisecond, Block: 500 * time.Millisecond, DelayPoll: 200 * time.Millisecond}

// world is one Redis server with one queue, seen from outside the driver too.
type world struct {
	*testing.T
	server *testredis.Server
	raw    *goredis.Client
	keys   keys
	url    string // through a proxy, where a test wants one
}

const queue = "orders"

func newWorld(t *testing.T, serverArgs ...string) *world {
	t.Helper()
	server := testredis.Start(t, serverArgs...)
	return &world{T: t, server: server, raw: server.Client(), keys: newKeys(binding(), Options{}.withDefaults()), url: server.URL()}
}

func (w *world) driver(o Options) *Driver {
	w.Helper()
	d, err := New(w.url, o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { d.Close(context.Background()) })
	return d
}

func binding(change ...func(*core.Binding)) core.Binding {
	b := core.Binding{Process: "job", Queue: queue, Concurrency: 8, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&b)
	}
	return b
}

// open opens a source that is closed with the test.
func (w *world) open(o Options, change ...func(*core.Binding)) (*source, *ear) {
	w.Helper()
	n := &ear{changed: make(chan struct{}, 1)}
	src, err := w.driver(o).OpenSource(w.Context(), binding(change...), n)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		src.Close(ctx)
	})
	return src.(*source), n
}

// ear keeps what a source tells its engine.
type ear struct {
	mu      sync.Mutex
	status  core.Status
	events  []core.Event
	changed chan struct{}
}

func (e *ear) State(s core.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = s
}

func (e *ear) Event(ev *core.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, *ev)
}

func (e *ear) Revoking([]core.Lane, time.Time) <-chan struct{} { return nil }

func (e *ear) now() core.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

// of returns the events of one kind so far.
func (e *ear) of(kind core.EventKind) []core.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(func(yield func(core.Event) bool) {
		for _, ev := range e.events {
			if ev.Kind == kind && !yield(ev) {
				return
			}
		}
	})
}

// eventually polls until check says yes.
func (w *world) eventually(what string, check func() bool) {
	w.Helper()
	deadline := time.Now().Add(patience)
	for !check() {
		if time.Now().After(deadline) {
			w.Fatalf("not within %s: %s", patience, what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// job is an envelope with this id.
func job(id string) string {
	return fmt.Sprintf(`{"v":1,"jobId":%q,"jobType":"t","payload":{"n":9007199254740993},"meta":{},"attempt":1,"maxAttempts":5,"createdAt":1720764000}`, id)
}

func jobs(n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = job(fmt.Sprintf("j%05d", i))
	}
	return out
}

// push puts bodies into ready as any producer does.
func (w *world) push(bodies ...any) {
	w.Helper()
	for part := range slices.Chunk(bodies, 1000) {
		if err := w.raw.LPush(w.Context(), w.keys.ready, part...).Err(); err != nil {
			w.Fatal(err)
		}
	}
}

// list is a list's content, next to run first.
func (w *world) list(key string) []string {
	w.Helper()
	out, err := w.raw.LRange(context.Background(), key, 0, -1).Result()
	if err != nil {
		w.Fatal(err)
	}
	slices.Reverse(out)
	return out
}

// processing is what every consumer's list holds, together.
func (w *world) processing() []string {
	w.Helper()
	keys, err := w.raw.Keys(context.Background(), w.keys.processing+"*").Result()
	if err != nil {
		w.Fatal(err)
	}
	var out []string
	for _, k := range keys {
		out = append(out, w.list(k)...)
	}
	return out
}

func (w *world) delayed() int64 {
	w.Helper()
	n, err := w.raw.ZCard(context.Background(), w.keys.delay).Result()
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// receive takes exactly n jobs, in as many calls as it needs.
func (w *world) receive(s *source, n int) []*core.Delivery {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	var all []*core.Delivery
	for len(all) < n && ctx.Err() == nil {
		ds, err := s.Receive(ctx, n-len(all))
		if err != nil {
			w.Fatalf("receive: %v", err)
		}
		all = append(all, ds...)
	}
	if len(all) != n {
		w.Fatalf("received %d jobs, want %d", len(all), n)
	}
	return all
}

// settle settles a batch and returns an error for each item.
func (w *world) settle(s *source, batch ...core.Settlement) []error {
	w.Helper()
	errs := make([]error, len(batch))
	var left sync.WaitGroup
	left.Add(len(batch))
	s.Settle(batch, func(i int, err error) {
		errs[i] = err
		left.Done()
	})
	left.Wait()
	return errs
}

// settleAll settles deliveries alike and fails the test on any error.
func (w *world) settleAll(s *source, v core.Verdict, ds ...*core.Delivery) {
	w.Helper()
	batch := make([]core.Settlement, len(ds))
	for i, d := range ds {
		batch[i] = core.Settlement{D: d, Verdict: v}
	}
	for i, err := range w.settle(s, batch...) {
		if err != nil {
			w.Fatalf("settle item %d: %v", i, err)
		}
	}
}

func (w *world) close(s *source) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		w.Fatalf("close: %v", err)
	}
}

func bodies(ds []*core.Delivery) []string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = string(d.Body)
	}
	return out
}

func texts(list []any) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = v.(string)
	}
	return out
}

// wantKeys fails unless exactly these keys exist.
func (w *world) wantKeys(want ...string) {
	w.Helper()
	got, err := w.raw.Keys(context.Background(), "*").Result()
	if err != nil {
		w.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.Fatalf("keys are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
