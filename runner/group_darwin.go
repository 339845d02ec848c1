package runner

import (
	"fmt"
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

// processes are all that the system shows.
func processes() ([]process, error) {
	procs, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil, err
	}
	all := make([]process, len(procs))
	for i := range procs {
		all[i] = processFrom(&procs[i])
	}
	return all, nil
}

func processOf(pid int) (process, error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return process{}, err
	}
	return processFrom(p), nil
}

func processFrom(p *unix.KinfoProc) process {
	return process{
		pid: int(p.Proc.P_pid), parent: int(p.Eproc.Ppid), group: int(p.Eproc.Pgid),
		start: fmt.Sprint(p.Proc.P_starttime), ended: p.Proc.P_stat == zombie,
	}
}
