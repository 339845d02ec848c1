//go:build linux || darwin

package runner_test

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// screen is the other side of a terminal.
type screen struct {
	t    *testing.T
	file *os.File
	mu   sync.Mutex
	text strings.Builder
}

// onTerminal runs a wrapper as leader of a session with a terminal.
func onTerminal(t *testing.T, w *wrapper) *screen {
	t.Helper()
	front, back, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, file: front}
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr, w.out = back, back, back, nil
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	w.run()
	back.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 1024)
		for {
			n, err := front.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		front.Close()
		<-read
		if t.Failed() {
			t.Logf("on the screen:\n%s", s.text.String())
		}
	})
	return s
}

func (s *screen) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}

func (s *screen) expect(text string) {
	s.t.Helper()
	eventually(s.t, "on the screen: "+text, func() bool { return s.shows(text) })
}

func (s *screen) press(keys string) {
	s.t.Helper()
	if _, err := s.file.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

func (s *screen) foreground() int {
	pgid, err := unix.IoctlGetInt(int(s.file.Fd()), unix.TIOCGPGRP)
	if err != nil {
		s.t.Fatal(err)
	}
	return pgid
}

func terminalKeepers(t *testing.T, test func(t *testing.T, bare bool)) {
	t.Run("guardian", func(t *testing.T) { test(t, false) })
	t.Run("attendant", func(t *testing.T) { test(t, true) })
}

func TestTerminalIsReadable(t *testing.T) {
	terminalKeepers(t, func(t *testing.T, bare bool) {
		w := prepare(t, config{Bare: bare, Command: []string{"sh", "-c", "echo name?; read n; echo hello $n"}})
		s := onTerminal(t, w)
		s.expect("name?")
		eventually(t, "the command in the foreground", func() bool { return s.foreground() != w.pid() })
		s.press("world\n")
		s.expect("hello world")
		if o := w.wait(); o.ExitCode != 0 || o.Err != "" {
			t.Errorf("%+v", o)
		}
	})
}

func TestTerminalInterrupt(t *testing.T) {
	terminalKeepers(t, func(t *testing.T, bare bool) {
		w := prepare(t, config{Bare: bare, Command: []string{"sh", "-c", "trap 'echo heard; exit 4' INT; echo ready; while :; do sleep 0.01; done"}})
		s := onTerminal(t, w)
		s.expect("ready")
		eventually(t, "the command in the foreground", func() bool { return s.foreground() != w.pid() })
		s.press("\x03")
		s.expect("heard")
		if o := w.wait(); o.ExitCode != 4 || o.Err != "" {
			t.Errorf("%+v", o)
		}
	})
}

// Ctrl+Z does not suspend a job under a lease.
func TestTerminalSuspend(t *testing.T) {
	w := prepare(t, config{Command: []string{"sh", "-c", "echo ready; read a; echo got $a; read b; echo got $b"}})
	s := onTerminal(t, w)
	s.expect("ready")
	s.press("one\n")
	s.expect("got one")
	s.press("\x1a")
	time.Sleep(50 * time.Millisecond)
	s.press("two\n")
	s.expect("got two")
	if o := w.wait(); o.ExitCode != 0 || o.Err != "" {
		t.Errorf("%+v", o)
	}
}

// Whoever started us gets the terminal back, in the modes it had.
func TestTerminalComesBack(t *testing.T) {
	w := prepare(t, config{Command: []string{"sh", "-c", "stty raw -echo; echo ready; kill -KILL $$"}})
	// A shell without job control does not take the terminal back itself.
	shell := `"$0"; echo back $?; stty -a | tr ' ' '\n' | grep -x -e '-\?echo' -e '-\?icanon' | tr '\n' ' '; read line; echo read $line`
	w.cmd.Args = []string{"sh", "-c", shell, w.cmd.Path}
	w.cmd.Path = "/bin/sh"
	s := onTerminal(t, w)
	s.expect("back 137")
	s.expect("icanon")
	if s.shows("-icanon") || s.shows("-echo ") {
		t.Error("the modes were not restored")
	}
	s.press("something\n")
	s.expect("read something")
	w.wait()
}

// A background job that is brought to the foreground gets the terminal then.
func TestTerminalForegroundLater(t *testing.T) {
	w := prepare(t, config{Command: []string{"sh", "-c", "echo ready; read line; echo read $line"}})
	w.cmd.Args = []string{"sh", "-c", `set -m; "$0" & sleep 0.3; echo fetching; fg; echo back $?`, w.cmd.Path}
	w.cmd.Path = "/bin/sh"
	s := onTerminal(t, w)
	s.expect("fetching")
	s.press("later\n")
	s.expect("read later")
	s.expect("back 0")
	w.wait()
}
