//go:build unix

package gitstore

import (
	"os/exec"
	"syscall"
)

// separate gives the command its own process group, so that everything it starts
// can be ended together. On the way to another machine it also gets a session:
// then ssh cannot ask on our terminal. Otherwise it gets none, because Linux
// gives every session its own share of the processor, and on a busy machine a
// new one waits for it.
func separate(cmd *exec.Cmd, session bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session, Setpgid: !session}
}

func kill(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}
