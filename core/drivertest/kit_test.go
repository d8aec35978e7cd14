package drivertest

import (
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goconsumer/consumer/core"
)

// memoryHarness runs the kit on a broker in memory, on the virtual clock.
type memoryHarness struct {
	m      *Memory
	wrap   func(d *MemoryDriver) core.Driver // what stands before the broker's driver; nil = nothing
	queues atomic.Int64
}

func newMemoryHarness(shape Shape) *memoryHarness { return &memoryHarness{m: NewMemory(shape)} }

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
	_ Harness     = (*memoryHarness)(nil)
	_ Cutter      = (*memoryHarness)(nil)
	_ Outage      = (*memoryHarness)(nil)
	_ Expirer     = (*memoryHarness)(nil)
	_ ReplyLoser  = (*memoryHarness)(nil)
	_ Bubbler     = (*memoryHarness)(nil)
	_ core.Driver = wrapped{}
)

func (h *memoryHarness) Bubble(t *testing.T, test func(t *testing.T, h Harness)) {
	synctest.Test(t, func(t *testing.T) { test(t, newMemoryHarness(h.m.shape)) })
}

func (h *memoryHarness) Binding(testing.TB) core.Binding {
	return core.Binding{Queue: fmt.Sprintf("kit-%d", h.queues.Add(1))}
}

func (h *memoryHarness) Open(testing.TB) core.Driver {
	d := h.m.Open()
	var driver core.Driver = d
	if h.wrap != nil {
		driver = h.wrap(d)
	}
	return inspecting{wrapped{driver, d}, d}
}

func (h *memoryHarness) Crash(_ testing.TB, d core.Driver)      { memoryOf(d).Crash() }
func (h *memoryHarness) Cut(_ testing.TB, d core.Driver)        { memoryOf(d).Cut() }
func (h *memoryHarness) Expire(_ testing.TB, d core.Driver)     { memoryOf(d).Expire() }
func (h *memoryHarness) Down(testing.TB, core.Driver)           { h.m.Down() }
func (h *memoryHarness) Up(testing.TB, core.Driver)             { h.m.Up() }
func (h *memoryHarness) Held(_ testing.TB, b core.Binding) Held { return h.m.Held(b.Queue) }

func (h *memoryHarness) LoseReply(testing.TB, core.Driver) {
	h.m.Inject(Fault{Op: OpSettle, Times: 3, LoseReply: true})
}

func (h *memoryHarness) Limits() Limits {
	return Limits{Late: 0, Recovery: h.m.shape.Recovery + h.m.shape.Lease + h.m.shape.Drain, Patience: 20 * time.Second}
}

func memoryOf(d core.Driver) *MemoryDriver { return d.(inspecting).d }

func TestTheBrokerInMemoryKeepsTheContractInEveryShape(t *testing.T) {
	t.Parallel()
	for _, shape := range Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			Run(t, newMemoryHarness(shape))
		})
	}
}

func TestEveryPowerHasACaseThatExercisesIt(t *testing.T) {
	t.Parallel()
	exercised := map[string]bool{"Notes": true} // only people read them
	for _, c := range Cases() {
		for _, name := range c.Exercises {
			exercised[name] = true
		}
	}
	powers := reflect.TypeFor[core.Capabilities]()
	for i := range powers.NumField() {
		if name := powers.Field(i).Name; !exercised[name] {
			t.Errorf("core.Capabilities.%s can be claimed, but no case exercises it", name)
		}
	}
	for _, name := range []string{"Isolator", "Extender", "LanePauser", "Inspector"} {
		if !exercised[name] {
			t.Errorf("core.%s can be implemented, but no case exercises it", name)
		}
	}
}

func TestNoTwoCasesHaveOneName(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range Cases() {
		if seen[c.Name] {
			t.Errorf("two cases are called %q", c.Name)
		}
		seen[c.Name] = true
	}
}

func TestRunFailsForAClaimThatNoCaseExercises(t *testing.T) {
	t.Parallel()
	claims := Powers{Capabilities: core.Capabilities{Delay: core.SupportWeaker, Lanes: true}, Isolator: true}.Claims()
	if want := []string{"Delay", "Isolator", "Lanes"}; !slices.Equal(claims, want) {
		t.Errorf("claims are %v, want %v", claims, want)
	}
}
