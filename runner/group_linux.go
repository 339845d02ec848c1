package runner

import (
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/tasklock/tasklock/internal/host"
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
	all, err := host.Table()
	return err != nil || slices.ContainsFunc(all, func(p host.Row) bool { return p.Group == pgid && p.PID != except && !p.Ended })
}
