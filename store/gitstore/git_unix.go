//go:build unix

package gitstore

import (
	"os/exec"
	"syscall"
)

// separate gives the command a process group of its own, so that all that it
// starts can be ended together, and on the way to another machine a session too:
// then ssh cannot ask on our terminal. Where nobody asks that is left out, because
// Linux gives every session its own share of the processor, and on a busy machine
// a new one waits for it.
func separate(cmd *exec.Cmd, session bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session, Setpgid: !session}
}

func kill(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
