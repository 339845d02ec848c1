package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

const hasGuardian = false

// startGuardian is never called: hasGuardian.
func startGuardian(*Options) (keeper, error) { return nil, errors.ErrUnsupported }

// GuardianMain says that there is no guardian here.
func GuardianMain([]string) int {
	fmt.Fprintln(os.Stderr, "guardian: not on Windows")
	return 2
}

// forwarded: Ctrl+C reaches the command through the console by itself; hearing
// it keeps us alive until the command has ended.
var (
	forwarded  = []os.Signal{os.Interrupt, syscall.SIGTERM}
	jobControl []os.Signal
)

func (s *session) forward(sig os.Signal) {
	if sig != os.Interrupt {
		s.keeper.signal(syscall.SIGKILL)
	}
}

func leaderAttr() *syscall.SysProcAttr { return nil }

// signalGroup kills the one process we know, for TERM and KILL alike.
func signalGroup(_ int, p *os.Process, _ syscall.Signal) { _ = p.Kill() }

func groupBusy(int, int) bool { return false }

// family: nobody is known but the command.
type family struct{ group, command, leader int }

func (*family) signal(syscall.Signal) {}
func (*family) members()              {}
func (*family) kill()                 {}
func (*family) busy() bool            { return false }

type terminal struct{}

func openTerminal(io.Reader) *terminal { return nil }
func (*terminal) give(int) bool        { return false }
func (*terminal) started(int)          {}
func (*terminal) takeBack(bool)        {}
