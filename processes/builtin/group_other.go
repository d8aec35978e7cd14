//go:build !unix

package builtin

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: there are no process groups here.
func ownGroup(*exec.Cmd) {}

// terminate kills: there is no TERM here.
func terminate(leader *os.Process) error { return leader.Kill() }

func kill(leader *os.Process) { _ = leader.Kill() }
