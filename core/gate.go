package core

import (
	"context"
	"sync"
)

// Gate makes a suspect run alone in its OS process. Every engine of the process
// shares one: it counts what all of them have on hand (deliveries that are not
// settled, and fetches under way), and while it is closed nobody fetches or
// starts anything.
type Gate struct {
	mu      sync.Mutex
	onHand  int
	closed  bool
	alone   chan struct{} // of the closer: closed when onHand is down to its suspect
	members map[*Engine]struct{}
	pardon  pardon
}

// pardon remembers the last suspect that was lost while it ran alone: a cut
// connection took it away, this OS process still lives, so the charge that comes
// back with it is wrong.
type pardon struct {
	queue, id string
	crashes   int // as charged
}

// NewGate makes an open gate.
func NewGate() *Gate { return &Gate{members: map[*Engine]struct{}{}} }

// forgive notes a pardon.
func (g *Gate) forgive(p pardon) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pardon = p
}

// forgiven says whether p was noted, and uses it up.
func (g *Gate) forgiven(p pardon) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pardon != p {
		return false
	}
	g.pardon = pardon{}
	return true
}

func (g *Gate) join(e *Engine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[e] = struct{}{}
}

func (g *Gate) leave(e *Engine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.members, e)
}

// enter counts one fetch, unless the gate is closed.
func (g *Gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.onHand++
	return true
}

// add changes the number of things on hand.
func (g *Gate) add(n int) {
	if n == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.onHand += n
	g.signalLocked()
}

func (g *Gate) signalLocked() {
	if g.alone != nil && g.onHand <= 1 {
		close(g.alone)
		g.alone = nil
	}
}

func (g *Gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// close shuts the gate for a caller that has one suspect on hand and returns a
// channel that is closed when nothing else is. nil: somebody else closed it
// first.
func (g *Gate) close() <-chan struct{} {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	alone := make(chan struct{})
	g.alone = alone
	g.signalLocked()
	members := g.membersLocked()
	g.mu.Unlock()
	for _, e := range members {
		e.interrupt()
	}
	return alone
}

// open lets everybody fetch again.
func (g *Gate) open() {
	g.mu.Lock()
	g.closed, g.alone = false, nil
	members := g.membersLocked()
	g.mu.Unlock()
	for _, e := range members {
		e.interrupt()
	}
}

func (g *Gate) membersLocked() []*Engine {
	out := make([]*Engine, 0, len(g.members))
	for e := range g.members {
		out = append(out, e)
	}
	return out
}

// waitFor waits for a channel or the context and says whether it was the channel.
func waitFor(ctx context.Context, ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	case <-ctx.Done():
		return false
	}
}
