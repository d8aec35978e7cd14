package processes

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
)

// A memory limit has three parts. The Go runtime collects harder as the heap comes
// near it (GOMEMLIMIT). The parent looks at the child's resident memory and kills
// it past the limit. And what could outrun that look, one huge allocation, is
// refused by the kernel, which ends the child as well: RLIMIT_DATA counts what is
// mapped for writing. RLIMIT_AS is of no use here, since the Go runtime reserves
// address space that it never fills.

// canLimitMemory says whether memory_limit and recycle.memory work here.
const canLimitMemory = true

const (
	memoryEvery = 25 * time.Millisecond
	// The kernel's limit is above ours, for what is mapped and not used: heap that
	// was given back, arenas of 64 MiB, stacks.
	dataSlack = 128 << 20
)

// LimitMemory makes this OS process die when it allocates far beyond limit bytes
// (0 = no limit) and collect garbage before. Commands that it starts inherit the
// former.
func LimitMemory(limit int64) error {
	if limit <= 0 {
		return nil
	}
	debug.SetMemoryLimit(limit / 10 * 9)
	most := uint64(limit + limit/4 + dataSlack)
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return fmt.Errorf("limit the memory: %w", err)
	}
	return nil
}

// watchMemory looks at the child's resident memory until it has ended.
func (c *child) watchMemory(process *os.Process, ended <-chan struct{}) {
	if c.spec.MemoryLimit <= 0 && c.spec.Recycle.Memory <= 0 {
		return
	}
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		used, err := resident(process.Pid)
		switch {
		case err != nil: // it has ended
		case c.spec.MemoryLimit > 0 && used > c.spec.MemoryLimit:
			c.kill(process, fmt.Sprintf("used %d MiB, more than its memory_limit of %d MiB, and was killed", used>>20, c.spec.MemoryLimit>>20))
			return
		case c.spec.Recycle.Memory > 0 && used > c.spec.Recycle.Memory:
			c.full()
		}
	}
}

// resident is how many bytes of memory an OS process uses.
func resident(pid int) (int64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, fmt.Errorf("statm of %d has %d fields", pid, len(fields))
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize()), err
}
