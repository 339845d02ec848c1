//go:build unix

package gitstore

import (
	"os/exec"
	"syscall"
)

// separate gives the command a session of its own: neither git nor ssh can
// ask on our terminal, and all that they start can be ended together.
func separate(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

func kill(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
