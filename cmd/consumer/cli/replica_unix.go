//go:build unix

package cli

import (
	"os/signal"
	"syscall"
)

// keepToOurselves closes descriptors in the commands that this process starts, and
// makes a parent that does not read any more an error instead of a signal: there
// are jobs to give back.
func keepToOurselves(descriptors ...int) {
	for _, fd := range descriptors {
		syscall.CloseOnExec(fd)
	}
	signal.Ignore(syscall.SIGPIPE)
}
