//go:build unix

package hold

import (
	"syscall"
)

// detached puts a process into its own session: without a terminal, and outside
// every group that somebody ends.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
