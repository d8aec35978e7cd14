package processes

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

const (
	reportEvery = 100 * time.Millisecond
	maxEvents   = 1 << 16 // kept while the parent does not read; later ones are not counted
)

// Link is a child OS process's end of the connection to its parent. Make one with
// Connect, make the Manager of the one replica with its Listener, then Serve.
type Link struct {
	setup   []byte
	orders  *gob.Decoder
	reports *sender[report]

	mu     sync.Mutex
	busy   bool // the parent was told that handlers may run
	events []childEvent
}

// Connect reads the setup that the parent sent first. It blocks until it is there.
func Connect(orders io.Reader, reports io.Writer) (*Link, error) {
	l := &Link{orders: gob.NewDecoder(orders), reports: newSender[report](reports)}
	var first order
	if err := l.orders.Decode(&first); err != nil {
		return nil, fmt.Errorf("read the setup from the parent: %w", err)
	}
	if first.Op != opSetup {
		return nil, errors.New("the parent sent no setup: this verb is run's own")
	}
	l.setup = first.Setup
	return l, nil
}

// Setup is what Options.Child gave for this child.
func (l *Link) Setup() []byte { return l.setup }

// Listener passes facts on to the parent's Options.Relayed.
func (l *Link) Listener() core.Listener { return l.note }

func (l *Link) note(e *core.Event) {
	switch e.Kind {
	case core.EventStarted:
		l.tellBusy()
	case core.EventStatus: // told by reports
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) < maxEvents {
		l.events = append(l.events, childEvent{e.Kind, e.Type, e.Outcome, e.Reason, e.Cause, e.Cost, e.Wait, e.N})
	}
}

// tellBusy makes sure that the parent knows of a running job before its handler
// starts: if this process vanishes now, the job may be why.
func (l *Link) tellBusy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.busy {
		l.busy = true
		_ = l.reports.send(&report{Busy: true}) // a parent that is gone ends the orders
	}
}

// Refuse is in the place of Serve when there is nothing to serve.
func (l *Link) Refuse(err error) { _ = l.reports.send(&report{End: newChildEnd(err)}) }

// Serve runs the manager as the parent orders and reports until it has ended; a
// parent that is gone makes the stop hard. One goroutine is left that reads orders.
func (l *Link) Serve(ctx context.Context, m *Manager) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go l.obey(m, stop)
	ended := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() { l.report(m, ended) })
	err := m.Run(ctx)
	close(ended)
	reporting.Wait()
	l.Refuse(err)
	return err
}

func (l *Link) obey(m *Manager, stop func()) {
	for {
		var o order
		if l.orders.Decode(&o) != nil {
			m.Abort()
			return
		}
		switch o.Op {
		case opPause:
			m.pauseReplicas(true)
		case opResume:
			m.pauseReplicas(false)
		case opStop:
			stop()
		case opAbort:
			m.Abort()
		}
	}
}

// report tells status and events until the manager has ended.
func (l *Link) report(m *Manager, ended <-chan struct{}) {
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	var last childStatus
	for over := false; !over; {
		select {
		case <-tick.C:
		case <-ended:
			over = true
		}
		l.reportNow(m, &last)
	}
}

func (l *Link) reportNow(m *Manager, last *childStatus) {
	// Under the lock: a handler that is about to start waits for it, so an idle
	// status is never followed by a job that the parent does not know of.
	l.mu.Lock()
	defer l.mu.Unlock()
	s := m.Status()[0]
	now := childStatus{s.Ready, s.State == StatePaused, s.Reason, s.Running, s.Stuck, s.Finished}
	r := report{Events: l.events}
	if idle := l.busy && now.Running == 0; now != *last || idle {
		r.Status = &now
		l.busy = now.Running > 0
	}
	if r.Status == nil && len(r.Events) == 0 {
		return
	}
	if l.reports.send(&r) == nil {
		*last, l.events = now, nil
	}
}
