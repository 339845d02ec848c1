package runner

import (
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// pipeDelay is how long the copying to and from the command may outlive it, if
// a process outside the group holds the other end.
const pipeDelay = 2 * time.Second

// command prepares a process with the files of the options.
func (o *Options) command(args []string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	cmd.WaitDelay = pipeDelay
	return cmd
}

// attendant is the keeper without a guardian: a goroutine of this process.
type attendant struct {
	cmd     *exec.Cmd
	orders  chan order
	sent    chan report
	pid     atomic.Int64
	stopped chan struct{} // closed by close
	ended   chan struct{} // closed when the goroutine has ended
}

func newAttendant(o *Options) *attendant {
	args := o.Command
	if args == nil { // the claim will have one
		args = []string{""}
	}
	a := &attendant{
		cmd: o.command(args), orders: make(chan order, 16), sent: make(chan report, 4),
		stopped: make(chan struct{}), ended: make(chan struct{}),
	}
	go a.attend()
	return a
}

func (a *attendant) attend() {
	defer close(a.ended)
	defer close(a.sent)
	// The kernel kills the command when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var first order
	select {
	case first = <-a.orders:
	case <-a.stopped:
		return
	}
	if first.Start == nil {
		return
	}
	a.cmd.Path, a.cmd.Args, a.cmd.Err = first.Start.Path, first.Start.Args, nil
	a.cmd.Dir, a.cmd.Env = first.Start.Dir, first.Start.Env
	a.cmd.SysProcAttr = leaderAttr()
	if err := a.cmd.Start(); err != nil {
		a.sent <- failure(err)
		return
	}
	a.pid.Store(int64(a.cmd.Process.Pid))
	a.sent <- report{Started: a.cmd.Process.Pid}
	exits := make(chan exit, 1)
	go func() {
		state, err := a.cmd.Process.Wait()
		exits <- exitOf(state, err)
	}()
	s := supervisor{
		orders: a.orders, exits: exits, grace: first.Start.Grace,
		report: func(r report) { a.sent <- r },
		signal: a.signal,
		busy:   func() bool { return groupBusy(a.group(), 0) },
		family: &family{group: a.group(), command: a.group()},
	}
	s.watch.trust(first.At, first.Trust, first.Grace)
	s.run()
	_ = a.cmd.Wait() // for its copying goroutines; the process was waited for above
}

func (a *attendant) group() int { return int(a.pid.Load()) }

func (a *attendant) order(o order) error {
	select {
	case a.orders <- o:
	case <-a.ended:
		return os.ErrProcessDone
	}
	return nil
}

func (a *attendant) reports() <-chan report { return a.sent }

func (a *attendant) signal(sig syscall.Signal) {
	if a.group() != 0 {
		signalGroup(a.group(), a.cmd.Process, sig)
	}
}

func (a *attendant) close() {
	close(a.stopped)
	<-a.ended
}
