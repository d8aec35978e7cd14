package redis

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/push"
)

// watch tells a source that waits at its plain list that another of its lists has
// got a job.
//
// A blocking move reads one list. One move for each list would end up with up to
// five jobs where one was asked for, or with four requests to end a wait for each
// job; a bell would be heard by a busy source while an idle one sleeps, and other
// programs don't ring it. So the server itself says it, on the very connection that
// waits: that connection reads (EXISTS) the other lists with tracking on, and the
// first change of one of them is pushed to it. While nothing happens that is one
// command each Block, whatever the number of lists; jobs of the plain list and busy
// sources cost nothing.
//
// Every idle source hears a change, and one of them gets the job. A server that
// cannot track is asked every DelayPoll.
type watch struct {
	lists []string
	deaf  bool          // the connection takes no pushes
	blind atomic.Bool   // the server cannot track
	rung  chan struct{} // cap 1
}

// newWatch returns nil when there is nothing to watch.
func newWatch(lists []string) *watch {
	if len(lists) == 0 {
		return nil
	}
	return &watch{lists: lists, rung: make(chan struct{}, 1)}
}

// attach takes what the server pushes on client's connections. Where the URL asks
// for RESP2 it pushes nothing.
func (w *watch) attach(client *goredis.Client) {
	if client.RegisterPushNotificationHandler("invalidate", w, false) != nil || client.Options().Protocol == 2 {
		w.deaf = true
	}
}

// track turns tracking on for one connection.
func (w *watch) track(ctx context.Context, c *goredis.Conn) error {
	err := c.Process(ctx, goredis.NewStatusCmd(ctx, "CLIENT", "TRACKING", "ON"))
	w.blind.Store(err != nil)
	if isReply(err) {
		return nil
	}
	return err
}

// HandlePushNotification takes the server's word that keys have changed.
func (w *watch) HandlePushNotification(_ context.Context, _ push.NotificationHandlerContext, notification []any) error {
	keys, some := []any(nil), false
	if len(notification) > 1 {
		keys, some = notification[1].([]any)
	}
	// Without keys everything has changed (FLUSHALL).
	if !some || slices.ContainsFunc(keys, func(key any) bool { name, _ := key.(string); return slices.Contains(w.lists, name) }) {
		select {
		case w.rung <- struct{}{}:
		default:
		}
	}
	return nil
}

// changed is readable when a list has changed since look; a nil watch never is.
func (w *watch) changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.rung
}

// look says whether one of the lists has a job, and makes the server tell the next
// change of any of them.
func (w *watch) look(ctx context.Context, client *goredis.Client) (bool, error) {
	n, err := client.Exists(ctx, w.lists...).Result()
	return n > 0, err
}

// bound is how long a wait may take.
func (w *watch) bound(block, poll time.Duration) time.Duration {
	if w.deaf || w.blind.Load() {
		return min(block, poll)
	}
	return block
}
