//go:build unix

package processes

import (
	"os/exec"
	"syscall"
)

// apart keeps the terminal's signals from the child: its parent passes on what it
// is to do.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
