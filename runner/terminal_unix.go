//go:build linux || darwin

package runner

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the one on standard input. A nil terminal does nothing.
type terminal struct {
	fd    int
	modes *term.State // as we found them
	given int         // the group that has it from us; 0: none
}

// openTerminal returns nil if there is none.
func openTerminal(stdin io.Reader) *terminal {
	f, ok := stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	t := &terminal{fd: int(f.Fd())}
	t.modes, _ = term.GetState(t.fd)
	return t
}

// give hands the terminal to the group if it is ours to give, that is if we
// are in the foreground.
func (t *terminal) give(pgid int) bool {
	if t == nil || pgid <= 1 {
		return false
	}
	if front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); err != nil || front != unix.Getpgrp() {
		return false
	}
	if unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgid) != nil {
		return false
	}
	t.given = pgid
	return true
}

// started gives the terminal to a group that runs already: it may have been
// stopped for using it too early.
func (t *terminal) started(pgid int) {
	if t == nil {
		return
	}
	// From now on we are in the background and must neither be stopped for a
	// message nor when we take the terminal back. The command was started
	// before, so that it does not inherit this.
	signal.Ignore(syscall.SIGTTOU)
	if t.give(pgid) {
		_ = unix.Kill(-pgid, unix.SIGCONT)
	}
}

// takeBack makes us the foreground again, unless someone else has taken over
// since. A command that was killed had no time to restore the modes.
func (t *terminal) takeBack(killed bool) {
	if t == nil {
		return
	}
	if front, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP); t.given != 0 && err == nil && front == t.given {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, unix.Getpgrp())
		if killed && t.modes != nil {
			_ = term.Restore(t.fd, t.modes)
		}
	}
	signal.Reset(syscall.SIGTTOU)
}
