package drivertest

import (
	"container/heap"
	"hash/fnv"
	"slices"
	"time"

	"github.com/goconsumer/consumer/core"
)

// message is one message at the broker, in exactly one place: delayed, or ready
// in a lane, or in flight (claim is set).
type message struct {
	seq      int64 // its place in line; kept when it is released or found again
	body     []byte
	headers  []core.Header
	key      string
	priority core.Priority
	stored   time.Time
	due      time.Time
	found    int
	attempt  int   // from 1, counted by in-place brokers
	charged  bool  // stored by Isolate as a message of its own
	lane     *lane // where it is ready or in flight
	offset   int64 // in the lane's log
	claim    *claim
}

// claim is one delivery of a message to one source. A message's present claim
// is the only one that may settle it.
type claim struct {
	msg     *message
	source  *source
	lost    chan struct{}
	expires time.Time // zero = not while the source is alive
	settled bool      // carried out; settling again after a lost reply changes nothing
}

// queue is one queue of the broker. Everything in it is guarded by Memory.mu.
type queue struct {
	m       *Memory
	name    string
	lanes   []*lane
	members []*source
	delayed messageHeap
	claims  map[*claim]struct{}
	dead    []core.DeadRecord
	paused  bool
	spread  int           // next lane of a message without a key
	changed chan struct{} // closed and replaced when something became ready
	timer   *time.Timer   // runs advance at the next due time, lease end or recovery
}

func newQueue(m *Memory, name string) *queue {
	q := &queue{m: m, name: name, claims: map[*claim]struct{}{}, changed: make(chan struct{})}
	q.delayed.less = func(a, b *message) bool { return a.due.Before(b.due) || a.due.Equal(b.due) && a.seq < b.seq }
	for i := range max(m.shape.Partitions, 1) {
		q.lanes = append(q.lanes, newLane(q, i))
	}
	return q
}

// add stores a new message, due after delay.
func (q *queue) add(msg *message, delay time.Duration) {
	msg.seq, msg.stored = q.m.nextSeq(), time.Now()
	msg.attempt = max(msg.attempt, 1)
	q.hold(msg, delay)
}

// hold keeps a message back for delay, or makes it ready.
func (q *queue) hold(msg *message, delay time.Duration) {
	msg.due = time.Now().Add(delay)
	if delay > 0 {
		heap.Push(&q.delayed, msg)
	} else {
		q.laneFor(msg).append(msg)
	}
	q.touch()
}

func (q *queue) laneFor(msg *message) *lane {
	if msg.key != "" {
		h := fnv.New32a()
		_, _ = h.Write([]byte(msg.key))
		return q.lanes[int(h.Sum32()%uint32(len(q.lanes)))]
	}
	q.spread++
	return q.lanes[q.spread%len(q.lanes)]
}

// touch wakes the receivers and sets the timer anew after a change.
func (q *queue) touch() {
	close(q.changed)
	q.changed = make(chan struct{})
	next, ok := q.next()
	if !ok {
		return
	}
	wait := max(time.Until(next), 0)
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.onTimer)
		return
	}
	q.timer.Reset(wait)
}

// next is the earliest moment at which time alone changes something.
func (q *queue) next() (at time.Time, ok bool) {
	earliest := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	if len(q.delayed.items) > 0 {
		earliest(q.delayed.items[0].due)
	}
	for c := range q.claims {
		earliest(c.expires)
	}
	for _, s := range q.members {
		earliest(s.removal)
	}
	return at, ok
}

func (q *queue) onTimer() {
	q.m.mu.Lock()
	defer q.m.mu.Unlock()
	q.advance()
	q.touch()
}

// advance does what has become due: delayed messages become ready, leases end,
// vanished members are taken off their lanes.
func (q *queue) advance() {
	now := time.Now()
	for len(q.delayed.items) > 0 && !q.delayed.items[0].due.After(now) {
		msg := heap.Pop(&q.delayed).(*message)
		q.laneFor(msg).append(msg)
	}
	for _, c := range q.claimsInOrder() {
		if !c.expires.IsZero() && !c.expires.After(now) {
			c.msg.found++
			q.takeBack(c)
		}
	}
	for _, s := range slices.Clone(q.members) {
		if !s.removal.IsZero() && !s.removal.After(now) {
			q.leave(s)
		}
	}
}

// release ends a claim without an outcome: the message is ready again, in its
// old place.
func (q *queue) release(c *claim) {
	delete(q.claims, c)
	c.msg.claim = nil
	c.msg.lane.offer(c.msg)
}

// takeBack releases a message against its holder's will, and tells it.
func (q *queue) takeBack(c *claim) {
	q.release(c)
	closeOnce(c.lost)
}

// closeOnce closes a channel that may be closed already. Deliveries of one lane
// or connection share theirs. Memory.mu is held.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// finish removes a message whose outcome is stored.
func (q *queue) finish(c *claim) {
	delete(q.claims, c)
	c.settled = true
	c.msg.claim = nil
	c.msg.lane.finish(c.msg)
}

func (q *queue) claimsOf(s *source) []*claim {
	return slices.DeleteFunc(q.claimsInOrder(), func(c *claim) bool { return c.source != s })
}

func (q *queue) claimsInOrder() []*claim {
	all := make([]*claim, 0, len(q.claims))
	for c := range q.claims {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *claim) int { return int(a.msg.seq - b.msg.seq) })
	return all
}

// messageHeap is a container/heap of messages.
type messageHeap struct {
	items []*message
	less  func(a, b *message) bool
}

func (h *messageHeap) Len() int           { return len(h.items) }
func (h *messageHeap) Less(i, j int) bool { return h.less(h.items[i], h.items[j]) }
func (h *messageHeap) Swap(i, j int)      { h.items[i], h.items[j] = h.items[j], h.items[i] }
func (h *messageHeap) Push(x any)         { h.items = append(h.items, x.(*message)) }
func (h *messageHeap) Pop() any {
	last := h.items[len(h.items)-1]
	h.items = h.items[:len(h.items)-1]
	return last
}
