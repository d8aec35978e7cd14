package drivertest

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Held is everything that a broker holds of one queue, as a program outside the
// framework would count it.
type Held struct {
	Ready    [][]byte
	Delayed  [][]byte
	InFlight [][]byte
	Dead     []core.DeadRecord // oldest first
}

// IDs lists the jobId of everything that is held, dead letters included, sorted
// and with repeats. What has no id is left out.
func (h Held) IDs() []string {
	var ids []string
	for _, body := range slices.Concat(h.Ready, h.Delayed, h.InFlight) {
		var envelope struct {
			JobID string `json:"jobId"`
		}
		if json.Unmarshal(body, &envelope) == nil && envelope.JobID != "" {
			ids = append(ids, envelope.JobID)
		}
	}
	for _, record := range h.Dead {
		if record.Job != nil {
			ids = append(ids, record.Job.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// Waiting is how many messages are ready, delayed or in flight.
func (h Held) Waiting() int { return len(h.Ready) + len(h.Delayed) + len(h.InFlight) }

// Held takes a snapshot of one queue.
func (m *Memory) Held(queue string) Held {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queue(queue)
	q.advance()
	var h Held
	for _, l := range q.lanes {
		for _, msg := range inOrder(l.ready.items, l.ready.less) {
			h.Ready = append(h.Ready, bytes.Clone(msg.body))
		}
	}
	for _, msg := range inOrder(q.delayed.items, q.delayed.less) {
		h.Delayed = append(h.Delayed, bytes.Clone(msg.body))
	}
	for _, c := range q.claimsInOrder() {
		h.InFlight = append(h.InFlight, bytes.Clone(c.msg.body))
	}
	h.Dead = slices.Clone(q.dead)
	return h
}

// Push stores a body as a foreign producer does: without an envelope if it
// likes, with headers, at once.
func (m *Memory) Push(queue string, body []byte, headers ...core.Header) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue(queue).add(&message{body: bytes.Clone(body), headers: headers}, 0)
}

// oldest is the age of the oldest ready message.
func (m *Memory) oldest(queue string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var age time.Duration
	for _, l := range m.queue(queue).lanes {
		for _, msg := range l.ready.items {
			age = max(age, time.Since(msg.stored))
		}
	}
	return age
}

func inOrder(items []*message, less func(a, b *message) bool) []*message {
	sorted := slices.Clone(items)
	slices.SortFunc(sorted, func(a, b *message) int {
		if less(a, b) {
			return -1
		}
		return 1
	})
	return sorted
}
