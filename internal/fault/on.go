//go:build faults

package fault

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// Enabled says whether this build carries fault points.
const Enabled = true

// script is what CONSUMER_FAULTS asks for, read at the first point that is
// passed.
var script = sync.OnceValue(func() *Script {
	s, err := Parse(os.Getenv("CONSUMER_FAULTS"))
	if err != nil {
		panic(err)
	}
	return s
})

// At marks that the program passes p. It does what CONSUMER_FAULTS says for
// this pass, in the order written there, with a line on stderr for each: kill
// ends the program as SIGKILL does, stall blocks, fail makes At return an error
// that the step must treat as its own.
func At(p Point) error {
	pass, actions := script().pass(p)
	for _, a := range actions {
		fmt.Fprintf(os.Stderr, "fault: %s pass %d: %s\n", p, pass, a.kind)
		switch a.kind {
		case kindKill:
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way; nothing may run past the point
		case kindStall:
			time.Sleep(a.stall)
		case kindFail:
			return fmt.Errorf("fault at %s, pass %d", p, pass)
		}
	}
	return nil
}
