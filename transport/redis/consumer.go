package redis

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/goconsumer/consumer/core"
)

// consumer is one identity at the server: a name, a lease and a processing list.
// A source has one at a time; when it is lost, the next one has a new name, so
// that nothing late can touch what others do by then.
type consumer struct {
	id         string
	processing string
	sequence   string
	lost       chan struct{} // closed by lose

	mu      sync.Mutex
	isLost  bool
	held    map[string]int // how many deliveries hold this body; guarded by mu
	order   uint64         // number of the last claim; guarded by mu
	checked time.Time      // when the list was last compared; Receive's alone
	doubt   bool           // a reply of Receive was lost; Receive's alone
	strayed time.Time      // when a move was last given up, which may still happen; Receive's, then Close's

	// The settler's alone.
	number  uint64
	pending *numberedCall

	// comparing keeps Isolate from adding a body to the list between the two
	// looks of a comparison.
	comparing sync.Mutex
}

// delivery is what the driver knows of one job in its processing list.
type delivery struct {
	core.Delivery
	owner *consumer
	value any    // the body as the server has it: a string, boxed once for the calls
	taken any    // the body as it was claimed
	order uint64 // position in the processing list: lower came earlier
	list  int    // number of the ready list that it came from; 0 = unknown
	// fate is what became of it; the settler's alone.
	fate fate
}

type fate uint8

const (
	open    fate = iota
	settled      // its outcome is durable
	stale        // it was not ours any more
)

func newConsumer(b core.Binding, k keys) *consumer {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	id := fmt.Sprintf("%s-%d@%s-%d-%s", b.Process, b.Replica, safe(host), os.Getpid(), randomToken()) + k.kin
	return &consumer{
		id:         id,
		processing: k.processing + id,
		sequence:   k.sequence + id,
		lost:       make(chan struct{}),
		held:       map[string]int{},
	}
}

func randomToken() string {
	random := make([]byte, 4)
	rand.Read(random)
	return hex.EncodeToString(random)
}

// safe keeps the characters that a host name should have.
func safe(name string) string {
	out := []byte(name)
	for i, c := range out {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-') {
			out[i] = '_'
		}
	}
	return string(out)
}

// take makes a delivery of a body that is now in the processing list.
func (c *consumer) take(value any, found, list int) *core.Delivery {
	body := value.(string)
	c.mu.Lock()
	c.order++
	c.held[body]++
	d := &delivery{owner: c, value: value, taken: value, order: c.order, list: list}
	c.mu.Unlock()
	d.Body = []byte(body) // a copy: a handler that writes into its payload must not change what we settle
	d.Found = core.Count{N: found}
	d.Lost = c.lost
	d.Native = d
	return &d.Delivery
}

// forget takes a body that left the processing list off the books.
func (c *consumer) forget(value any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body := value.(string)
	if c.held[body]--; c.held[body] <= 0 {
		delete(c.held, body)
	}
}

// hold books a body that is about to enter the processing list.
func (c *consumer) hold(value any) {
	c.comparing.Lock()
	defer c.comparing.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[value.(string)]++
}

// holds is how many bodies are on the books.
func (c *consumer) holds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, count := range c.held {
		n += count
	}
	return n
}

// lose ends the identity: its deliveries are no longer ours. It is safe to call
// it again.
func (c *consumer) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isLost {
		c.isLost = true
		close(c.lost)
	}
}

func (c *consumer) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isLost
}
