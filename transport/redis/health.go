package redis

import (
	"errors"
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
	told   bool
	last   core.Status
}

// report notes the result of a part's call and tells the engine when the state
// changes. It returns err.
func (h *health) report(p part, err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults[p] = err
	status := core.Status{Ready: true}
	if fault := errors.Join(h.faults[:]...); fault != nil {
		for _, f := range h.faults {
			if f != nil {
				status = core.Status{Reason: "queue " + h.queue + ": " + f.Error()}
				break
			}
		}
	}
	if !h.told || status != h.last {
		h.told, h.last = true, status
		h.notices.State(status)
	}
	return err
}
