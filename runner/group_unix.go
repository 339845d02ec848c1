//go:build linux || darwin

package runner

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

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
		if p, err := processOf(s.pid); err == nil && !s.ended && p.group != s.keeper.group() {
			p.signal(sig.(syscall.Signal)) // it has made a group of its own, as timeout does
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
