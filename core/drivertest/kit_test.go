package drivertest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goconsumer/consumer/core"
)

// memoryHarness runs the kit on a broker in memory, a fresh one for each case,
// on the virtual clock.
type memoryHarness struct {
	shape  Shape
	m      func(t testing.TB) *Memory
	wrap   func(m *Memory, d core.Driver) core.Driver
	queues *atomic.Int64
}

func newMemoryHarness(shape Shape) *memoryHarness {
	return &memoryHarness{shape: shape, queues: &atomic.Int64{}}
}

// wrapped is a driver of the memory broker, perhaps behind something broken.
type wrapped struct {
	core.Driver
	d *MemoryDriver
}

// inspecting is wrapped where the driver behind it can be inspected.
type inspecting struct {
	wrapped
	core.Inspector
}

var (
	_ Harness     = (*memoryCase)(nil)
	_ Cutter      = (*memoryCase)(nil)
	_ Outage      = (*memoryCase)(nil)
	_ Expirer     = (*memoryCase)(nil)
	_ ReplyLoser  = (*memoryCase)(nil)
	_ core.Driver = wrapped{}
)

// memoryCase is the harness for one case: it has the case's broker.
type memoryCase struct {
	*memoryHarness
	m *Memory
}

func (h *memoryHarness) fresh() *memoryCase { return &memoryCase{h, NewMemory(h.shape)} }

func (c *memoryCase) Binding(testing.TB) core.Binding {
	return core.Binding{Queue: fmt.Sprintf("kit-%d", c.queues.Add(1))}
}

func (c *memoryCase) Open(testing.TB) core.Driver {
	d := c.m.Open()
	var driver core.Driver = d
	if c.wrap != nil {
		driver = c.wrap(c.m, d)
	}
	return inspecting{wrapped{driver, d}, d}
}

func (c *memoryCase) Crash(_ testing.TB, d core.Driver)      { memoryOf(d).Crash() }
func (c *memoryCase) Cut(_ testing.TB, d core.Driver)        { memoryOf(d).Cut() }
func (c *memoryCase) Expire(_ testing.TB, d core.Driver)     { memoryOf(d).Expire() }
func (c *memoryCase) Down(testing.TB, core.Driver)           { c.m.Down() }
func (c *memoryCase) Up(testing.TB, core.Driver)             { c.m.Up() }
func (c *memoryCase) Held(_ testing.TB, b core.Binding) Held { return c.m.Held(b.Queue) }

func (c *memoryCase) LoseReply(testing.TB, core.Driver) {
	c.m.Inject(Fault{Op: OpSettle, Times: 3, LoseReply: true})
}

func (c *memoryCase) Limits() Limits {
	return Limits{Late: 0, Recovery: c.shape.Recovery + c.shape.Lease + c.shape.Drain, Patience: 30 * time.Minute}
}

func memoryOf(d core.Driver) *MemoryDriver { return d.(inspecting).d }

// kitOn runs the kit on a shape: every case in a bubble of its own, on a broker
// of its own.
func kitOn(t *testing.T, h *memoryHarness) {
	t.Helper()
	powers := h.powers(t)
	for _, c := range Cases() {
		if c.Applies(powers) {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { c.Run(t, h.fresh()) })
			})
		}
	}
}

// powers probes a shape in a bubble of its own.
func (h *memoryHarness) powers(t *testing.T) (p Powers) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { p = Probe(t, h.fresh()) })
	return p
}

func TestTheBrokerInMemoryKeepsTheContractInEveryShape(t *testing.T) {
	t.Parallel()
	for _, shape := range Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			kitOn(t, newMemoryHarness(shape))
		})
	}
}
