//go:build linux || darwin

package host

import (
	"io/fs"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// signal0 asks whether a process (or, negative, a group) exists: nil, ESRCH,
// or EPERM when it does and belongs to someone else.
func signal0(pid int) error { return unix.Kill(pid, 0) }

// BootID names this boot of the machine. Empty when unknown.
func BootID() string { return boot() }

var boot = sync.OnceValue(readBootID)

// Awake reads a monotonic clock that stands still while the machine sleeps,
// and names the domain within which two readings may be compared. If the domain
// is empty, compare wall clocks instead.
func Awake() (reading time.Duration, domain string) {
	var ts unix.Timespec
	if err := unix.ClockGettime(awakeClock, &ts); err != nil {
		return 0, ""
	}
	return time.Duration(ts.Nano()), awakeDomain()
}

// SessionStart is the start time of the leader of our session. It distinguishes
// two terminals that had the same name. Empty when the leader is gone or lives
// in another namespace.
func SessionStart() string { return sessionStart() }

var sessionStart = sync.OnceValue(func() string {
	sid, err := unix.Getsid(0)
	if err != nil || sid <= 0 {
		return ""
	}
	seen, err := look(sid)
	if err != nil {
		return ""
	}
	return seen.start
})

// Owner is the user that owns a file; ok is false where files have none.
func Owner(fi fs.FileInfo) (uid int, ok bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
