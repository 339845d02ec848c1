package runner

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// leaderAttr starts a process as leader of a new group.
func leaderAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// memberAttr starts a process in our own group.
func memberAttr() *syscall.SysProcAttr { return nil }

// adopts: orphans go to the first process of the system.
const adopts = false

func adoptOrphans() {}

const zombie = 5 // SZOMB

// groupBusy reports whether a process other than except runs in the group. If
// it cannot be seen it is taken to be so: KILL comes in time.
func groupBusy(pgid, except int) bool {
	procs, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", pgid)
	if err != nil {
		return true
	}
	for _, p := range procs {
		if int(p.Proc.P_pid) != except && p.Proc.P_stat != zombie {
			return true
		}
	}
	return false
}
