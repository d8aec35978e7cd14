package drivertest

import (
	"container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/goconsumer/consumer/core"
)

// lane is a partition, or the whole of a queue without partitions. Its durable
// part is a log with a committed offset and the finished offsets above it: a
// source that takes the lane over starts from these alone.
type lane struct {
	q         *queue
	name      core.Lane
	log       map[int64]*message // from committed on
	end       int64              // the next offset
	committed int64              // everything below is finished
	finished  map[int64]bool     // above committed

	// What the present owner knows.
	ready    messageHeap
	inFlight int
	owner    *source
	lost     chan struct{} // shared by the owner's deliveries of this lane
	revoking bool
}

func newLane(q *queue, i int) *lane {
	l := &lane{q: q, log: map[int64]*message{}, finished: map[int64]bool{}, lost: make(chan struct{})}
	if q.m.shape.Partitions > 0 {
		l.name = core.Lane(fmt.Sprintf("%s/%d", q.name, i))
	}
	l.ready.less = func(a, b *message) bool {
		if q.m.shape.Priority && a.priority != b.priority {
			return a.priority < b.priority
		}
		return a.seq < b.seq
	}
	return l
}

// append writes a message at the end of the log.
func (l *lane) append(msg *message) {
	msg.lane, msg.offset = l, l.end
	l.log[l.end] = msg
	l.end++
	heap.Push(&l.ready, msg)
}

// offer makes a message of the log ready again after it was in flight.
func (l *lane) offer(msg *message) {
	l.inFlight--
	heap.Push(&l.ready, msg)
}

// take hands the next ready message to s.
func (l *lane) take(s *source) *claim {
	msg := heap.Pop(&l.ready).(*message)
	l.inFlight++
	c := &claim{msg: msg, source: s, lost: l.lost}
	if lease := l.q.m.shape.Lease; lease > 0 {
		c.expires, c.lost = time.Now().Add(lease), make(chan struct{})
	} else if l.name == "" {
		c.lost = s.lost
	}
	msg.claim = c
	l.q.claims[c] = struct{}{}
	return c
}

// finish marks an offset and commits up to the first gap.
func (l *lane) finish(msg *message) {
	l.inFlight--
	l.finished[msg.offset] = true
	for l.finished[l.committed] {
		delete(l.finished, l.committed)
		delete(l.log, l.committed)
		l.committed++
	}
}

// reload forgets what the last owner had fetched and reads the log again, as
// the next owner does.
func (l *lane) reload() {
	l.ready.items, l.inFlight = nil, 0
	for offset := l.committed; offset < l.end; offset++ {
		if msg := l.log[offset]; msg != nil && !l.finished[offset] {
			msg.claim = nil
			heap.Push(&l.ready, msg)
		}
	}
}

// open says whether s may fetch from the lane now.
func (l *lane) open(s *source) bool {
	if len(l.ready.items) == 0 {
		return false
	}
	if l.name == "" {
		return true
	}
	window := l.q.m.shape.Window
	return l.owner == s && !l.revoking && !s.paused[l.name] && (window == 0 || l.inFlight < window)
}

// join adds a member and leave removes one; both share the lanes out anew.
func (q *queue) join(s *source) {
	s.lost = make(chan struct{})
	q.members = append(q.members, s)
	q.rebalance()
	q.touch()
}

func (q *queue) leave(s *source) {
	q.members = slices.DeleteFunc(q.members, func(member *source) bool { return member == s })
	for _, c := range q.claimsOf(s) {
		if !s.d.gone { // the deliveries of a vanished one end by themselves
			q.takeBack(c)
		}
	}
	for _, l := range q.lanes {
		if l.owner == s {
			l.handOver(nil)
		}
	}
	q.rebalance()
	q.touch()
}

// rebalance gives each lane to a member in turn. A lane whose owner lives is
// revoked first: its owner finishes what runs, for at most Drain.
func (q *queue) rebalance() {
	alive := slices.DeleteFunc(slices.Clone(q.members), func(s *source) bool { return s.d.gone })
	if q.m.shape.Partitions == 0 || len(alive) == 0 {
		return
	}
	leaving := map[*source][]*lane{}
	for i, l := range q.lanes {
		next := alive[i%len(alive)]
		switch {
		case l.owner == nil:
			l.handOver(next)
		case l.owner != next && !l.revoking && !l.owner.d.gone:
			l.revoking = true
			leaving[l.owner] = append(leaving[l.owner], l)
		}
	}
	for s, lanes := range leaving {
		s.revoke(lanes)
	}
}

// handOver ends the present ownership: deliveries that were not settled by then
// are lost to their holder.
func (l *lane) handOver(next *source) {
	for c := range l.q.claims {
		if c.msg.lane == l {
			delete(l.q.claims, c)
			c.msg.claim = nil
		}
	}
	closeOnce(l.lost)
	l.lost = make(chan struct{})
	l.owner, l.revoking = next, false
	l.reload()
}

// revoke announces the lanes to their owner and hands them over when they are
// drained, when their time is up, or when the owner closes.
func (s *source) revoke(lanes []*lane) {
	names := make([]core.Lane, len(lanes))
	for i, l := range lanes {
		names[i] = l.name
	}
	until := time.Now().Add(s.m.shape.Drain)
	s.background.Go(func() {
		limit := time.NewTimer(time.Until(until))
		defer limit.Stop()
		select {
		case <-s.notices.Revoking(names, until):
		case <-limit.C:
		case <-s.closing:
			return // Close hands everything over
		}
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		for _, l := range lanes {
			if l.owner == s && l.revoking {
				l.handOver(nil)
			}
		}
		s.q.rebalance()
		s.q.touch()
	})
}
