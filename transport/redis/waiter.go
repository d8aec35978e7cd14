package redis

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// waiter is one connection on which the server may keep us waiting. Its wait can
// be ended early without losing what the server may have moved meanwhile: the
// server is asked from another connection to end it, and the reply is read.
type waiter struct {
	driver *Driver
	block  time.Duration   // the longest wait
	client *goredis.Client // of one connection
	id     atomic.Int64    // the connection's number at the server; 0 = unknown

	mu   sync.Mutex
	conn net.Conn
}

// unblockEvery is the pause between two requests to end a wait: one that arrives
// before the wait has begun does nothing. unblockLimit is when the connection is
// given up instead.
const (
	unblockEvery = 10 * time.Millisecond
	unblockLimit = 2 * time.Second
)

// newWaiter makes a waiter for waits of at most block, whose connections serve
// watch if it is not nil.
func newWaiter(d *Driver, block time.Duration, watch *watch) *waiter {
	w := &waiter{driver: d, block: block}
	o := d.template
	o.PoolSize = 1
	o.ReadTimeout = block + commandTimeout
	dial := dialer(&o)
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err == nil {
			w.mu.Lock()
			w.conn = conn
			w.mu.Unlock()
		}
		return conn, err
	}
	o.OnConnect = func(ctx context.Context, c *goredis.Conn) error {
		id, err := c.ClientID(ctx).Result()
		w.id.Store(id)
		if err != nil && !isReply(err) {
			return err
		}
		// A server that does not tell: its waits end by themselves.
		if watch != nil {
			return watch.track(ctx, c)
		}
		return nil
	}
	w.client = goredis.NewClient(&o)
	if watch != nil {
		watch.attach(w.client)
	}
	return w
}

// wait runs call, which blocks at the server, and ends it early when stop
// closes. It returns false when the connection had to be given up: what the
// server did is unknown then. It returns only after call has.
func (w *waiter) wait(stop <-chan struct{}, call func(*goredis.Client)) bool {
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		call(w.client)
	}()
	select {
	case <-returned:
		return true
	case <-stop:
	}
	patience := unblockLimit
	if w.id.Load() == 0 {
		patience += w.block
	}
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	again := time.NewTicker(unblockEvery)
	defer again.Stop()
	for {
		// A failure does not matter: it is asked again, or the connection is given up.
		if id := w.id.Load(); id != 0 {
			w.driver.client.ClientUnblock(limit, id)
		}
		select {
		case <-returned:
			return true
		case <-again.C:
		case <-limit.Done():
			w.drop()
			<-returned
			return false
		}
	}
}

// drop closes the connection under the client, so that a read on it ends.
func (w *waiter) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		_ = w.conn.Close()
	}
}

func (w *waiter) close() { _ = w.client.Close() }
