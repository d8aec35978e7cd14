package core

import "time"

// flows counts what is on hand of each of the broker's lanes. Where the source can
// pause single lanes, each has a window of its own. Guarded by the engine's mu.
type flows struct {
	on      bool
	pauser  LanePauser // nil: one window for all
	window  int
	onHand  map[Lane]int
	paused  map[Lane]bool
	waiters []flowWaiter
}

// flowWaiter waits until nothing of its lanes is on hand.
type flowWaiter struct {
	lanes []Lane
	empty chan struct{}
}

func (f *flows) init(source Source, caps Capabilities, window int) {
	if f.on = caps.Lanes; !f.on {
		return
	}
	f.pauser, _ = source.(LanePauser)
	f.window = window
	f.onHand, f.paused = map[Lane]int{}, map[Lane]bool{}
}

func (f *flows) pausing() bool { return f.pauser != nil }

// add counts one more delivery of a lane and says whether the lane is full now and
// must be paused.
func (f *flows) add(l Lane) (full bool) {
	if !f.on {
		return false
	}
	f.onHand[l]++
	if f.pauser == nil || f.paused[l] || f.onHand[l] < f.window {
		return false
	}
	f.paused[l] = true
	return true
}

// remove counts one delivery less and says whether the lane is to be resumed.
func (f *flows) remove(l Lane) (resume bool) {
	if !f.on {
		return false
	}
	f.onHand[l]--
	n := f.onHand[l]
	if n <= 0 {
		delete(f.onHand, l)
		f.signal()
	}
	if f.paused[l] && n <= f.window/2 {
		delete(f.paused, l)
		return true
	}
	return false
}

// signal closes the channels of those whose lanes are empty.
func (f *flows) signal() {
	rest := f.waiters[:0]
	for _, w := range f.waiters {
		busy := false
		for _, l := range w.lanes {
			busy = busy || f.onHand[l] > 0
		}
		if busy {
			rest = append(rest, w)
		} else {
			close(w.empty)
		}
	}
	f.waiters = rest
}

// notices is the engine's ear for its source.
type notices struct{ e *Engine }

func (n notices) State(s Status) {
	n.e.mu.Lock()
	before := n.e.pausedLocked()
	n.e.health.source = s
	changed := before != n.e.pausedLocked()
	if s.Ready { // the Receive under way may go on waiting on an empty queue
		n.e.health.receiving = nil
	}
	n.e.mu.Unlock()
	if changed {
		n.e.interrupt()
	}
	n.e.refreshStatus()
}

func (n notices) Event(ev *Event) { n.e.emit(ev) }

// Revoking releases what has not started of the lanes; the channel is closed when
// the rest is settled. When time is up the driver closes Lost.
func (n notices) Revoking(lanes []Lane, _ time.Time) <-chan struct{} {
	e := n.e
	gone := make(map[Lane]bool, len(lanes))
	for _, l := range lanes {
		gone[l] = true
	}
	e.releaseUnstarted(func(t *task) bool { return !gone[t.d.Lane] })
	e.mu.Lock()
	defer e.mu.Unlock()
	empty := make(chan struct{})
	e.flows.waiters = append(e.flows.waiters, flowWaiter{lanes: lanes, empty: empty})
	e.flows.signal()
	return empty
}
