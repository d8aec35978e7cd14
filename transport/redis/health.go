package redis

import (
	"sync"

	"github.com/goconsumer/consumer/core"
)

// The parts of a source that can fail apart from each other.
type part uint8

const (
	partFetch part = iota
	partLease
	partPromote
	partCount
)

// health turns the results of a source's calls into notices. It is safe for
// concurrent use.
type health struct {
	notices core.Notices
	queue   string

	mu     sync.Mutex
	faults [partCount]error
	paused bool
	told   bool
	last   core.Status
}

// report notes the result of a part's call and tells the engine when the state
// changes. It returns err.
func (h *health) report(p part, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults[p] = err
	h.tell()
	return err
}

// pause notes whether the queue is paused at the server.
func (h *health) pause(paused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.paused = paused
	h.tell()
}

// tell announces the state if it changed. mu is held, so that states arrive in
// order.
func (h *health) tell() {
	status := core.Status{Ready: true, Paused: h.paused}
	for _, fault := range h.faults {
		if fault != nil {
			status = core.Status{Paused: h.paused, Reason: "queue " + h.queue + ": " + fault.Error()}
			break
		}
	}
	if !h.told || status != h.last {
		h.told, h.last = true, status
		h.notices.State(status)
	}
}
