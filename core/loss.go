package core

import (
	"context"
	"sync"
	"time"
)

// lossGroups cancels the handlers of deliveries whose ownership is gone: one
// goroutine for each Lost channel in use, however many deliveries share it.
type lossGroups struct {
	parent context.Context
	mu     sync.Mutex
	groups map[<-chan struct{}]*lossGroup
}

// lossGroup is what shares one Lost channel.
type lossGroup struct {
	ctx    context.Context // handlers' parent; cancelled with ErrLost
	cancel context.CancelCauseFunc
	lost   <-chan struct{}
	users  int
}

func (g *lossGroups) join(lost <-chan struct{}) *lossGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	group := g.groups[lost]
	if group == nil {
		if g.groups == nil {
			g.groups = map[<-chan struct{}]*lossGroup{}
		}
		group = &lossGroup{lost: lost}
		group.ctx, group.cancel = context.WithCancelCause(g.parent)
		g.groups[lost] = group
		go group.watch()
	}
	group.users++
	return group
}

func (l *lossGroup) watch() {
	select {
	case <-l.lost:
		l.cancel(ErrLost)
	case <-l.ctx.Done(): // nobody uses it any more, or a hard stop
	}
}

// leave takes one delivery out of its group; the last one ends the group.
func (g *lossGroups) leave(l *lossGroup) {
	if l == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(g.groups, l.lost)
		l.cancel(nil)
	}
}

// extendLoop renews the leases of everything on hand at a third of their length.
func (e *Engine) extendLoop(x Extender) {
	ticker := time.NewTicker(max(x.LeaseDuration()/3, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-e.quit:
			return
		case <-ticker.C:
		}
		e.mu.Lock()
		ds := make([]*Delivery, 0, len(e.tasks))
		for t := range e.tasks {
			ds = append(ds, t.d)
		}
		e.mu.Unlock()
		if len(ds) == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), x.LeaseDuration()/3)
		for i, err := range x.ExtendLease(ctx, ds) {
			if err != nil {
				// Not fatal: the driver closes Lost once the lease is over.
				e.cfg.Logger.Warn("lease.extend", "process", e.cfg.Binding.Process, "ref", ds[i].Ref, "error", err)
			}
		}
		cancel()
	}
}
