//go:build unix

package hold

import (
	"syscall"
)

// detached puts a process into a session of its own: no terminal, no group
// that somebody ends.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
