//go:build !linux

package processes

import "os"

// canLimitMemory says whether memory_limit and recycle.memory work here.
const canLimitMemory = false

// LimitMemory does nothing on this system: New refuses a Spec that needs it.
func LimitMemory(int64) error { return nil }

func (c *child) watchMemory(*os.Process, <-chan struct{}) {}
