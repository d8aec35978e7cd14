package core

import (
	"fmt"
	"slices"
)

// CheckCapabilities compares what a binding asks for with what a source can do.
// The error is a *SetupError that says what to change; a weaker power passes when
// the binding's accept names it.
func CheckCapabilities(b Binding, c Capabilities, transport string) error {
	need := func(power string, has Support, ask string) error {
		switch {
		case has == SupportNone:
			return &SetupError{Sentence: fmt.Sprintf("process %s: transport %s cannot give %s; change it or choose another transport", b.Process, transport, ask)}
		case has == SupportWeaker && !slices.Contains(b.Accept, power):
			return &SetupError{Sentence: fmt.Sprintf("process %s: transport %s gives %s only in a weaker form; add %q to accept, or change it", b.Process, transport, ask, power)}
		}
		return nil
	}
	if err := need("delay", c.Delay, "delayed jobs (retries need them)"); err != nil {
		return err
	}
	if b.Priority == PriorityLevels {
		if err := need("priority", c.Priority, "priority: levels"); err != nil {
			return err
		}
	}
	switch b.Ordering {
	case OrderingKey:
		return need("order", c.OrderKey, "ordering: key")
	case OrderingPartition:
		return need("order", c.OrderPartition, "ordering: partition")
	case OrderingQueue:
		return need("order", c.OrderQueue, "ordering: queue")
	}
	return nil
}
