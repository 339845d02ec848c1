//go:build linux || darwin

package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Row is a process in the table of the system.
type Row struct {
	PID, Parent, Group int
	Start              string // only equality means something
	Ended              bool   // a zombie: nothing of it runs, its parent has not noticed
}

// Same reports whether both are one process: the kernel gives numbers out again.
func (r Row) Same(other Row) bool { return r.PID == other.PID && r.Start == other.Start }

// Signal makes sure that the number has not gone to another process meanwhile.
// One that is stopped wakes up to take its TERM.
func (r Row) Signal(sig syscall.Signal) {
	target, err := os.FindProcess(r.PID) // on Linux it stays the same process from here on
	if err != nil {
		return
	}
	defer target.Release()
	if now, err := RowOf(r.PID); err != nil || !now.Same(r) {
		return
	}
	_ = target.Signal(sig) // gone already, or not ours to signal: nothing to be done
	if sig == unix.SIGTERM {
		_ = target.Signal(unix.SIGCONT)
	}
}

// OpenPlain is os.OpenFile for files that never wait for others to write. It keeps the
// runtime's poller out: a command that needs none would set it up only to hear that
// such a file cannot be polled.
func OpenPlain(path string, how int, mode fs.FileMode) (*os.File, error) {
	for {
		switch fd, err := unix.Open(path, how|unix.O_CLOEXEC, uint32(mode)); err {
		case nil:
			return os.NewFile(uintptr(fd), path), nil
		case unix.EINTR:
		default:
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

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
	seen, _ := look(sid)
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

// FileSystem names the kind of file system that holds path, or will hold it,
// and reports whether locks and mmap on it work among all processes that can
// reach it.
func FileSystem(path string) (name string, safe bool, err error) {
	var st unix.Statfs_t
	if err := statNearest(path, &st); err != nil {
		return "", false, err
	}
	name, safe = judge(&st)
	return name, safe, nil
}

// statNearest climbs to the nearest parent that exists. A link that points to
// nothing yet is followed: the file will be created where it points.
func statNearest(path string, st *unix.Statfs_t) error {
	const maxSteps = 1000 // links can loop through missing folders
	at := path
	for range maxSteps {
		err := unix.Statfs(at, st)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, fs.ErrNotExist):
			return &fs.PathError{Op: "statfs", Path: path, Err: err}
		}
		parent := filepath.Dir(at)
		target, err := os.Readlink(at)
		switch {
		case err != nil:
			at = parent
		case filepath.IsAbs(target):
			at = target
		default:
			at = filepath.Join(parent, target)
		}
	}
	return &fs.PathError{Op: "statfs", Path: path, Err: unix.ELOOP}
}

// NoSpace reports whether err means a full disk or a used-up quota.
func NoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Writable says why a folder or file cannot be written; nil if it can. It
// asks the kernel and tries nothing.
func Writable(path string) error {
	mode := uint32(unix.W_OK)
	if fi, err := os.Stat(path); err == nil && fi.IsDir() {
		mode |= unix.R_OK | unix.X_OK
	}
	return unix.Access(path, mode)
}
