package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/goconsumer/consumer/core"
	"github.com/goconsumer/consumer/core/drivertest"
	"github.com/goconsumer/consumer/deadletter"
	"github.com/goconsumer/consumer/internal/testproxy"
	"github.com/goconsumer/consumer/internal/testredis"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	drivertest.Run(t, &redisHarness{server: server, raw: server.Client()})
}

// redisHarness gives each process of a case a network of its own to one server.
type redisHarness struct {
	server *testredis.Server
	raw    *goredis.Client

	mu     sync.Mutex
	number int // names queues and processes; guarded by mu
}

// osProcess is a driver as one OS process has it.
type osProcess struct {
	*Driver
	name  string
	proxy *testproxy.Proxy

	mu      sync.Mutex
	sources []*source
}

func (p *osProcess) OpenSource(ctx context.Context, b core.Binding, n core.Notices) (core.Source, error) {
	s, err := p.Driver.OpenSource(ctx, b, n)
	if err == nil {
		p.mu.Lock()
		p.sources = append(p.sources, s.(*source))
		p.mu.Unlock()
	}
	return s, err
}

func (h *redisHarness) next() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.number++
	return h.number
}

func (h *redisHarness) Binding(testing.TB) core.Binding {
	return core.Binding{Queue: fmt.Sprintf("q%d", h.next()), Options: quick}
}

func (h *redisHarness) Open(t testing.TB) core.Driver {
	proxy, name := testproxy.Start(t, h.server.Addr), fmt.Sprintf("p%d", h.next())
	d, err := New("redis://"+proxy.Addr()+"/0?client_name="+name, quick)
	if err != nil {
		t.Fatal(err)
	}
	return &osProcess{Driver: d, name: name, proxy: proxy}
}

func (h *redisHarness) Crash(t testing.TB, d core.Driver) {
	p := d.(*osProcess)
	h.Down(t, d)
	deadline := time.Now().Add(patience)
	for strings.Contains(h.raw.ClientList(context.Background()).Val(), "name="+p.name+" ") {
		if time.Now().After(deadline) {
			t.Fatal("the server still has connections of a crashed process")
		}
		<-time.After(time.Millisecond)
	}
}

func (h *redisHarness) Held(t testing.TB, b core.Binding) drivertest.Held {
	ctx, k := context.Background(), newKeys(b, quick.withDefaults())
	var held drivertest.Held
	list := func(key string) (out [][]byte) {
		items, err := h.raw.LRange(ctx, key, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			out = append(out, []byte(item))
		}
		return out
	}
	for _, key := range k.lists {
		held.Ready = append(held.Ready, list(key)...)
	}
	for _, member := range h.raw.ZRange(ctx, k.delay, 0, -1).Val() {
		held.Delayed = append(held.Delayed, []byte(member))
	}
	for _, key := range h.raw.Keys(ctx, k.processing+"*").Val() {
		held.InFlight = append(held.InFlight, list(key)...)
	}
	dead := list(k.dead)
	for i := range dead {
		held.Dead = append(held.Dead, deadletter.Read(dead[len(dead)-1-i]).Record)
	}
	return held
}

func (h *redisHarness) Limits() drivertest.Limits {
	return drivertest.Limits{Late: 500 * time.Millisecond, Recovery: 5 * time.Second, Patience: patience}
}

func (h *redisHarness) Cut(_ testing.TB, d core.Driver) { d.(*osProcess).proxy.Cut() }

func (h *redisHarness) Down(_ testing.TB, d core.Driver) {
	d.(*osProcess).proxy.Refuse(true)
	d.(*osProcess).proxy.Cut()
}

func (h *redisHarness) Up(_ testing.TB, d core.Driver) { d.(*osProcess).proxy.Refuse(false) }

func (h *redisHarness) LoseReply(_ testing.TB, d core.Driver) {
	d.(*osProcess).proxy.LoseReplies("job:dead:{", 1, nil)
}

// Expire does what another consumer does that takes this one for dead.
func (h *redisHarness) Expire(t testing.TB, d core.Driver) {
	other, err := New(h.server.URL(), quick)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	p := d.(*osProcess)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.sources {
		s.mu.Lock()
		id := s.current.id
		s.mu.Unlock()
		h.raw.ZAdd(context.Background(), s.keys.consumers, z(1, id))
		rescuer := &source{driver: other, keys: s.keys, options: s.options}
		if _, _, err := rescuer.giveBack(context.Background(), id, "0"); err != nil {
			t.Fatal(err)
		}
	}
}

var (
	_ drivertest.Harness    = (*redisHarness)(nil)
	_ drivertest.Cutter     = (*redisHarness)(nil)
	_ drivertest.Outage     = (*redisHarness)(nil)
	_ drivertest.Expirer    = (*redisHarness)(nil)
	_ drivertest.ReplyLoser = (*redisHarness)(nil)
)
