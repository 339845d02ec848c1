package runner

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// leaderAttr starts a process as leader of a new group that dies with us.
func leaderAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// memberAttr starts a process in our own group that dies with us.
func memberAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// adopts: orphans among our descendants become our children, so that having
// none means that nothing is left.
const adopts = true

func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } // older than Linux 3.4: /proc answers

// groupBusy reports whether a process other than except runs in the group. If
// it cannot be seen it is taken to be so: KILL comes in time.
func groupBusy(pgid, except int) bool {
	all, err := listed()
	return err != nil || slices.ContainsFunc(all, func(p process) bool { return p.group == pgid && p.pid != except && !p.ended })
}

// processes are all that /proc shows, if its numbers are those of kill(2).
func processes() ([]process, error) {
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, errors.New("/proc belongs to another pid namespace")
	}
	return listed()
}

func listed() (all []process, err error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := processOf(pid); err == nil { // else it ended while we walked
			all = append(all, p)
		}
	}
	return all, nil
}

func processOf(pid int) (p process, err error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return p, err
	}
	// pid (name) state ppid pgrp …, and the name may hold anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return p, errors.New("short stat line")
	}
	p = process{pid: pid, start: string(fields[19]), ended: fields[0][0] == 'Z' || fields[0][0] == 'X'}
	p.parent, _ = strconv.Atoi(string(fields[1]))
	p.group, _ = strconv.Atoi(string(fields[2]))
	return p, nil
}
