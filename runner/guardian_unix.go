//go:build linux || darwin

package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/shutdown"
	"golang.org/x/sys/unix"
)

const (
	hasGuardian = true
	protocol    = "1" // the binary may have been replaced since we started
)

// guardian is the keeper in a process of its own, seen from the wrapper.
type guardian struct {
	cmd      *exec.Cmd
	orders   *os.File
	received chan report
}

func startGuardian(o *Options) (*guardian, error) {
	orderR, orderW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("guardian: %w", err)
	}
	defer orderR.Close()
	reportR, reportW, err := os.Pipe()
	if err != nil {
		orderW.Close()
		return nil, fmt.Errorf("guardian: %w", err)
	}
	defer reportW.Close()
	cmd := o.command(append(slices.Clone(o.Guardian), protocol))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	kept := passFiles(cmd, orderR, reportW)
	err = cmd.Start()
	for _, f := range kept {
		f.Close()
	}
	if err != nil {
		orderW.Close()
		reportR.Close()
		return nil, fmt.Errorf("guardian: %w", err)
	}
	g := &guardian{cmd: cmd, orders: orderW, received: make(chan report)}
	o.logf("guardian is process %d", cmd.Process.Pid)
	go receive(reportR, g.received)
	return g, nil
}

// receive passes on what comes through a pipe, and closes to when it ends.
func receive[T any](pipe *os.File, to chan<- T) {
	defer close(to)
	defer pipe.Close()
	in := json.NewDecoder(pipe)
	for {
		var message T
		if in.Decode(&message) != nil {
			return
		}
		to <- message
	}
}

// passFiles gives files to a process, at the numbers it appends to its arguments.
// They are free ones: a descriptor that we were given, to pass on to whatever
// we start, keeps its number. kept are copies of those, to be closed after the
// start.
func passFiles(cmd *exec.Cmd, files ...*os.File) (kept []*os.File) {
	for fd := 3; len(files) > 0; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			if same, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
				f := os.NewFile(uintptr(same), "inherited")
				kept = append(kept, f)
				cmd.ExtraFiles = append(cmd.ExtraFiles, f)
				continue
			}
		}
		cmd.ExtraFiles = append(cmd.ExtraFiles, files[0])
		cmd.Args = append(cmd.Args, strconv.Itoa(fd))
		files = files[1:]
	}
	return kept
}

func (g *guardian) group() int             { return g.cmd.Process.Pid }
func (g *guardian) reports() <-chan report { return g.received }

// order writes without waiting for a guardian that is stopped. What is short
// is written whole or not at all.
func (g *guardian) order(o order) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	patience := 50 * time.Millisecond
	if o.Start != nil {
		patience = 10 * time.Second
	}
	if err := g.orders.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = g.orders.Write(append(b, '\n'))
	return err
}

// signal is safe until close: the number of the group belongs to the guardian
// until it is waited for.
func (g *guardian) signal(sig syscall.Signal) { signalGroup(g.group(), nil, sig) }

func (g *guardian) close() {
	g.orders.Close()
	g.signal(syscall.SIGKILL)
	for range g.received {
	}
	_ = g.cmd.Wait() // what matters of its end is in its reports
	awaitGroup(g.group())
}

// awaitGroup returns when nothing of the group runs. A process that the kernel
// cannot kill yet is waited for; doubt is not, for there is nobody left whom
// KILL has not reached.
func awaitGroup(pgid int) {
	began := time.Now()
	for {
		switch host.GroupLife(pgid, host.Self()) {
		case host.Dead:
			return
		case host.Unknown:
			if time.Since(began) > time.Second {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// GuardianMain is the body of the hidden command that [Options.Guardian] names,
// with the arguments after it. It returns the exit code for the process.
func GuardianMain(args []string) int {
	var pipes []*os.File
	if len(args) == 3 && args[0] == protocol {
		pipes = append(openPipe(args[1]), openPipe(args[2])...)
	}
	if len(pipes) != 2 {
		fmt.Fprintln(os.Stderr, "guardian: to be started by run, of the same version, and not by hand")
		return 2
	}
	// The kernel kills the command when the thread that started it ends.
	runtime.LockOSThread()
	watchOver(pipes[0], pipes[1])
	return 0
}

// openPipe returns the pipe at that descriptor, or nothing.
func openPipe(number string) []*os.File {
	fd, err := strconv.Atoi(number)
	var st unix.Stat_t
	if err != nil || fd < 3 || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil
	}
	unix.CloseOnExec(fd)
	return []*os.File{os.NewFile(uintptr(fd), "pipe")}
}

// watchOver is all that a guardian does: it supervises one command, and ends.
func watchOver(in, out *os.File) {
	surviveSignals()
	adoptOrphans()
	orders := make(chan order)
	go receive(in, orders)
	first, ok := <-orders
	if !ok || first.Start == nil {
		return
	}
	enc := json.NewEncoder(out)
	say := func(r report) { _ = enc.Encode(r) } // a wrapper that is gone is noticed by its orders
	pgid := unix.Getpgrp()
	s := supervisor{
		orders: orders, report: say, grace: first.Start.Grace,
		signal: func(sig syscall.Signal) { signalGroup(pgid, nil, sig) },
	}
	s.watch.trust(first.At, first.Trust, first.Grace)
	if do, _ := s.watch.due(host.Now()); do != doNothing {
		say(report{Overdue: true})
		return
	}
	pid, err := syscall.ForkExec(first.Start.Path, first.Start.Args, &syscall.ProcAttr{
		Dir: first.Start.Dir, Env: first.Start.Env, Files: []uintptr{0, 1, 2}, Sys: memberAttr(),
	})
	if err != nil {
		say(failure(err))
		return
	}
	say(report{Started: pid})
	exits, childless := make(chan exit, 1), make(chan struct{})
	go reap(pid, pgid, first.Start.Foreground, exits, childless)
	s.exits, s.family = exits, &family{group: pgid, command: pid, leader: os.Getpid()}
	s.busy = func() bool {
		select {
		case <-childless:
			if adopts {
				return false
			}
		default:
		}
		return groupBusy(pgid, os.Getpid())
	}
	s.run()
}

// surviveSignals keeps the guardian alive through what is sent to its group. It
// catches and does not ignore: the command would inherit that. What was
// ignored from the start is left so, for the command to inherit.
func surviveSignals() {
	heard := make(chan os.Signal, 1)
	if sigs := shutdown.Heeded(survived...); len(sigs) > 0 {
		signal.Notify(heard, sigs...) // nobody listens
	}
}

var survived = slices.Concat(forwarded, []os.Signal{syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU})

// reap waits for the command and for the orphans that became the guardian's,
// and closes childless when there are none. If the group has the terminal,
// Ctrl+Z is undone.
func reap(pid, pgid int, foreground bool, exits chan<- exit, childless chan<- struct{}) {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			close(childless)
			return
		case ws.Stopped():
			if foreground && ws.StopSignal() == unix.SIGTSTP {
				_ = unix.Kill(-pgid, unix.SIGCONT)
			}
		case got == pid && ws.Signaled():
			exits <- exit{Signal: int(ws.Signal())}
		case got == pid:
			exits <- exit{Code: ws.ExitStatus()}
		}
	}
}
