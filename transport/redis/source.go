package redis

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goconsumer/consumer/core"
)

// source is one subscription. Its goroutines: the settler (settle.go), the lease
// (lease.go), the promoter and its bell (promote.go), the sweeper (recover.go).
// Receive runs on its caller's goroutine.
type source struct {
	driver  *Driver
	binding core.Binding
	options Options
	keys    keys
	notices core.Notices
	log     *slog.Logger
	health  *health
	clock   serverClock

	mover  *waiter // BLMOVE on the plain list; Receive's alone
	ringer *waiter // the bell; the promoter's alone
	watch  *watch  // of the lists beside the plain one; nil = there are none
	// elsewhere: one of them may have a job; Receive's alone.
	elsewhere bool

	fetching     context.Context // ends with Stop
	stopFetching context.CancelFunc
	working      context.Context // ends early in Close: promoter, sweeper
	stopWorking  context.CancelFunc
	life         context.Context // ends late in Close: settler, lease and every call
	endLife      context.CancelFunc
	workers      sync.WaitGroup // ends with working
	settling     sync.WaitGroup // ends with calls
	keepers      sync.WaitGroup // ends with life
	closeOnce    sync.Once
	closeErr     error

	closing sync.RWMutex // held for reading while a call is handed over
	closed  bool         // guarded by closing
	calls   chan func()  // to the settler; closed by Close

	strays  atomic.Bool // there may be lists that only a search finds: at the start, and after our name was lost
	mu      sync.Mutex
	current *consumer // guarded by mu
}

var (
	_ core.Source   = (*source)(nil)
	_ core.Isolator = (*source)(nil)
)

// OpenSource registers a consumer and starts to keep its lease. It fails with a
// *core.SetupError where the server refuses the login or a right.
func (d *Driver) OpenSource(ctx context.Context, b core.Binding, n core.Notices) (core.Source, error) {
	o, err := d.optionsOf(b)
	if err != nil {
		return nil, err
	}
	s := &source{
		driver:  d,
		binding: b,
		options: o,
		keys:    newKeys(b, o),
		notices: n,
		log:     b.Logger,
		health:  &health{notices: n, queue: b.Queue},
		ringer:  newWaiter(d, o.Block, nil),
		calls:   make(chan func(), 64),
	}
	s.watch = newWatch(s.keys.others())
	s.mover = newWaiter(d, o.Block, s.watch)
	s.fetching, s.stopFetching = context.WithCancel(context.Background())
	s.working, s.stopWorking = context.WithCancel(context.Background())
	s.life, s.endLife = context.WithCancel(context.Background())
	if _, err := s.identity(ctx); err != nil {
		s.endLife()
		s.stopWorking()
		s.stopFetching()
		s.mover.close()
		s.ringer.close()
		if fix := remedy(err); fix != "" {
			return nil, &core.SetupError{Sentence: strings.TrimSuffix(err.Error(), ".") + "; " + fix, Err: err}
		}
		return nil, err
	}
	d.scripts.load(ctx, d.client)
	s.strays.Store(true)
	s.lookPaused() // before the first claim
	s.settling.Go(s.settler)
	s.keepers.Go(s.keepLease)
	s.workers.Go(s.sweeper)
	s.workers.Go(s.promoter)
	_ = s.health.report(partFetch, nil)
	return s, nil
}

// Capabilities are those of the driver.
func (s *source) Capabilities() core.Capabilities { return s.driver.Capabilities() }

// Capabilities of every subscription: they are the same for every server.
func (d *Driver) Capabilities() core.Capabilities {
	return core.Capabilities{
		Delay:        core.SupportEmulated,
		Priority:     core.SupportNative,
		CrashCount:   core.SupportWeaker,
		AtomicSettle: core.SupportNative,
		Notes: []string{
			"a job counts as found unsettled when its consumer's lease ended, also after a long network cut: an upper bound",
			"redis replicates asynchronously: what was written in the last moments before a failover can be lost or come back",
		},
	}
}

// Stop ends fetching. A wait at the server is ended too; what it moved meanwhile
// is still handed out by Receive.
func (s *source) Stop(context.Context) error {
	s.stopFetching()
	return nil
}

func (s *source) stopped() bool { return s.fetching.Err() != nil }

// Close gives back what is unsettled, next to run, and removes the consumer's
// name. What it cannot give back in time is recovered by others when the lease
// is over.
func (s *source) Close(ctx context.Context) error {
	s.closeOnce.Do(func() {
		s.stopFetching()
		s.stopWorking()
		s.workers.Wait()
		s.closing.Lock()
		s.closed = true
		close(s.calls)
		s.closing.Unlock()
		s.settling.Wait() // its tries are bounded
		s.closeErr = s.release(ctx)
		s.endLife()
		s.keepers.Wait()
		s.mover.close()
		s.ringer.close()
	})
	return s.closeErr
}

// lose drops the identity after the server said that it is gone.
func (s *source) lose(c *consumer) {
	if c.gone() {
		return
	}
	c.lose()
	s.strays.Store(true) // perhaps it was not recovered but deleted, together with its place in members
	s.log.Warn("this consumer's lease was over and its jobs were given to others", "queue", s.binding.Queue, "consumer", c.id)
}

// serverClock estimates the server's time from its last answer, on the monotonic
// clock: steps of the machine's own clock change nothing.
type serverClock struct {
	mu     sync.Mutex
	micros int64
	at     time.Time
}

func (c *serverClock) set(micros int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.micros, c.at = micros, time.Now()
}

// millis is the server's time now, in unix milliseconds.
func (c *serverClock) millis() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.micros + time.Since(c.at).Microseconds()) / 1000
}
