//go:build linux || darwin

package runner

import (
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tasklock/tasklock/internal/host"
)

// A family is what descends from a command, in its group or out of it: timeout,
// for one, makes a group of its own, and a signal to the command's would not
// reach what it runs. Where the command must end, its family must. A daemon whose
// parent has ended before that belongs to it no more.
type family struct {
	group   int
	command int // also where it has left the group
	leader  int // of the group, if that is not the command: the guardian

	mu    sync.Mutex
	known []host.Row // once found they belong, also when their parents have ended
}

// members are those that run now.
func (f *family) members() []host.Row {
	f.mu.Lock()
	defer f.mu.Unlock()
	all, err := host.Table()
	if err != nil || !host.TableIsOurs() {
		return nil // the group is all that we know
	}
	ours := map[int]bool{}
	for _, p := range all {
		ours[p.PID] = p.PID != f.leader && (p.Group == f.group || p.PID == f.command || slices.ContainsFunc(f.known, p.Same))
	}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !ours[p.PID] && p.PID != f.leader && ours[p.Parent] {
				ours[p.PID], grown = true, true
			}
		}
	}
	f.known = slices.DeleteFunc(all, func(p host.Row) bool { return !ours[p.PID] })
	return slices.DeleteFunc(slices.Clone(f.known), func(p host.Row) bool { return p.Ended })
}

// signal sends to all that are not in the group; the group has a signal of its own.
func (f *family) signal(sig syscall.Signal) {
	for _, p := range f.members() {
		if p.Group != f.group {
			p.Signal(sig)
		}
	}
}

// kill ends all of them. It waits a moment until those outside the group have ended:
// the signal to the group that follows ends the guardian, too, and then nobody looks
// for them.
func (f *family) kill() {
	const wait, again = time.Second, 2 * time.Millisecond
	for began := time.Now(); time.Since(began) < wait; time.Sleep(again) {
		outside := false
		for _, p := range f.members() {
			p.Signal(syscall.SIGKILL)
			outside = outside || p.Group != f.group
		}
		if !outside {
			return
		}
	}
}

// busy reports whether one of them still runs.
func (f *family) busy() bool { return len(f.members()) > 0 }

// forwarded are the signals that go on to the command.
var forwarded = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// jobControl are the signals of a shell that moves jobs around.
var jobControl = []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}

// forward passes a signal on. A job under a lease is not suspended; one that
// is brought to the foreground gets the terminal.
func (s *session) forward(sig os.Signal) {
	switch sig {
	case syscall.SIGTSTP:
		s.o.logf("not suspended: the lease would be kept from others")
	case syscall.SIGCONT:
		s.terminal.started(s.keeper.group())
	default:
		s.o.logf("passing on %s", sig)
		s.keeper.signal(sig.(syscall.Signal))
		if p, err := host.RowOf(s.pid); err == nil && !s.ended && p.Group != s.keeper.group() {
			p.Signal(sig.(syscall.Signal)) // it has made a group of its own, as timeout does
		}
	}
}

// signalGroup sends to every process of the group. One that is stopped wakes
// up to take its TERM.
func signalGroup(pgid int, _ *os.Process, sig syscall.Signal) {
	if pgid <= 1 {
		return // not a group to kill(2), but "mine" and "everyone"
	}
	_ = unix.Kill(-pgid, sig) // gone already, or not ours to signal: nothing to be done
	if sig == unix.SIGTERM {
		_ = unix.Kill(-pgid, unix.SIGCONT)
	}
}
