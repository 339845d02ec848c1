//go:build unix

package pgtest

import (
	"os/exec"
	"syscall"
)

// as runs a command as the server's user, and out of reach of Ctrl+C.
func (s *Server) as(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.uid >= 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.gid), NoSetGroups: false}
	}
}
