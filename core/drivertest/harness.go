package drivertest

import (
	"testing"
	"time"

	"github.com/goconsumer/consumer/core"
)

// Harness is what a driver's test tells the kit about its broker. Its methods
// are called from many cases at once and end the test by t.Fatal when the
// broker does not obey.
type Harness interface {
	// Binding names an empty queue that nothing else uses and sets Options as the
	// driver needs them: short leases make the kit quick. The kit fills in the
	// rest.
	Binding(t testing.TB) core.Binding
	// Open makes a driver as one more OS process would: it shares nothing with
	// the others but the broker. The kit closes it.
	Open(t testing.TB) core.Driver
	// Crash makes the process of a driver vanish as SIGKILL does: nothing is
	// released or said to the broker, and once Crash returns nothing that the
	// driver still tries has an effect there. Its methods fail, or wait for their
	// context. The kit still closes its sources, which must not block.
	Crash(t testing.TB, d core.Driver)
	// Held reads what the broker holds of a queue without changing it, and not
	// through the driver if that can be avoided.
	Held(t testing.TB, b core.Binding) Held
	// Limits are the bounds that the driver's documentation states.
	Limits() Limits
}

// Limits bounds what a driver may take. The kit multiplies nothing: leave room
// for a loaded machine.
type Limits struct {
	// Late is how long after its due time a delayed job may become ready.
	Late time.Duration
	// Recovery is how long it may take until what a vanished worker held is
	// delivered again, its lease included.
	Recovery time.Duration
	// Prefetch is how many messages a source may hold beyond what Receive gave
	// out.
	Prefetch int
	// Patience is how long the kit waits for everything else; default 10s.
	Patience time.Duration
}

// Cutter is implemented by a harness that can break the connections of one
// process while the broker and the process live on.
type Cutter interface {
	Cut(t testing.TB, d core.Driver)
}

// Outage is implemented by a harness that can make the broker unreachable for
// one process and reachable again.
type Outage interface {
	Down(t testing.TB, d core.Driver)
	Up(t testing.TB, d core.Driver)
}

// Expirer is implemented by a harness that can take everything away from one
// process while it lives, as though its lease had run out.
type Expirer interface {
	Expire(t testing.TB, d core.Driver)
}

// ReplyLoser is implemented by a harness that can let the broker carry out the
// next settlement of a process and lose the reply.
type ReplyLoser interface {
	LoseReply(t testing.TB, d core.Driver)
}

// Bubbler is implemented by a harness whose broker lives in the test's own
// memory: each case then runs inside Bubble, usually synctest.Test, on a harness
// with a broker of its own.
type Bubbler interface {
	Bubble(t *testing.T, test func(t *testing.T, h Harness))
}
