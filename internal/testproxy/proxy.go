// Package testproxy is a TCP proxy for tests that break the network: it can cut
// connections, refuse new ones, hold bytes back, swallow them in one direction,
// and count what passes.
package testproxy

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Direction is the way bytes travel.
type Direction int

const (
	ToServer Direction = iota // from the program under test to the broker
	ToClient                  // from the broker to the program under test
)

// Action is what happens to one chunk of bytes.
type Action int

const (
	Pass Action = iota // forward it
	Drop               // swallow it and go on
	Cut                // swallow it and close this connection
)

// Chunk is what one read returned; a large message may come in several.
type Chunk struct {
	Connection int64 // counts from 1
	Direction  Direction
	Bytes      []byte // must not be kept
}

// Proxy forwards connections to one target. All methods may be called from
// several goroutines at once. It ends with its test.
type Proxy struct {
	listener net.Listener
	target   string
	done     chan struct{}
	wg       sync.WaitGroup

	connections atomic.Int64
	bytes       [2]atomic.Int64

	mu      sync.Mutex
	refuse  bool
	ended   bool
	stalled [2]chan struct{} // nil = flowing; closed when it flows again
	filter  func(Chunk) Action
	pairs   map[*pair]struct{}
}

type pair struct {
	number         int64
	client, server net.Conn
}

func (p *pair) close() {
	p.client.Close()
	p.server.Close()
}

// Start listens on a free loopback port and forwards to target.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start the proxy: %v", err)
	}
	p := &Proxy{listener: listener, target: target, done: make(chan struct{}), pairs: map[*pair]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is where the program under test connects to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Connections counts the connections made so far, refused ones left out.
func (p *Proxy) Connections() int64 { return p.connections.Load() }

// Bytes counts what arrived in one direction, dropped bytes included.
func (p *Proxy) Bytes(d Direction) int64 { return p.bytes[d].Load() }

// Cut closes every open connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.close()
	}
}

// Refuse closes new connections at once while on is true.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Stall holds everything back in one direction, on connections old and new,
// until Resume.
func (p *Proxy) Stall(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled[d] == nil {
		p.stalled[d] = make(chan struct{})
	}
}

// Resume ends Stall; what was held back goes through.
func (p *Proxy) Resume(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled[d] != nil {
		close(p.stalled[d])
		p.stalled[d] = nil
	}
}

// Filter lets f decide about every chunk; nil passes all. f is called from many
// goroutines.
func (p *Proxy) Filter(f func(Chunk) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filter = f
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	refuse := p.refuse
	p.mu.Unlock()
	if refuse {
		client.Close()
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		client.Close()
		return
	}
	c := &pair{number: p.connections.Add(1), client: client, server: server}
	p.mu.Lock()
	p.pairs[c] = struct{}{}
	if p.refuse || p.ended { // since the dial began
		c.close()
	}
	p.mu.Unlock()

	var halves sync.WaitGroup
	halves.Go(func() { p.pump(c, ToServer, server, client) })
	halves.Go(func() { p.pump(c, ToClient, client, server) })
	halves.Wait()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

// pump copies one direction until either side ends; then both ends close.
func (p *Proxy) pump(c *pair, d Direction, to io.Writer, from io.Reader) {
	defer c.close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.bytes[d].Add(int64(n))
			switch p.pass(Chunk{c.number, d, buffer[:n]}) {
			case Pass:
				if _, err := to.Write(buffer[:n]); err != nil {
					return
				}
			case Cut:
				return
			case Drop:
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the direction is stalled and asks the filter.
func (p *Proxy) pass(chunk Chunk) Action {
	for {
		p.mu.Lock()
		stalled, filter := p.stalled[chunk.Direction], p.filter
		p.mu.Unlock()
		if stalled == nil {
			if filter == nil {
				return Pass
			}
			return filter(chunk)
		}
		select {
		case <-stalled:
		case <-p.done:
			return Cut
		}
	}
}

func (p *Proxy) close() {
	close(p.done)
	p.listener.Close()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.Cut()
	p.wg.Wait()
}

// LoseReplies cuts a connection at the reply to a request that contains text: the
// server has carried it out, and nobody hears of it. It does so n times, and calls
// lost, if not nil, after each.
func (p *Proxy) LoseReplies(text string, n int, lost func()) {
	var mu sync.Mutex
	asked := map[int64]bool{}
	p.Filter(func(c Chunk) Action {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case n <= 0:
		case c.Direction == ToServer && bytes.Contains(c.Bytes, []byte(text)):
			asked[c.Connection] = true
		case c.Direction == ToClient && asked[c.Connection]:
			n--
			delete(asked, c.Connection)
			if lost != nil {
				lost()
			}
			return Cut
		}
		return Pass
	})
}
