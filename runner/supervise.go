package runner

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/host"
)

// order is a message from the wrapper to the supervisor of the command.
type order struct {
	At    host.Moment   `json:"at"`
	Start *spec         `json:"start,omitempty"` // together with Trust: no command without a deadline
	Stop  bool          `json:"stop,omitempty"`  // TERM, Grace, KILL
	Trust time.Duration `json:"trust,omitempty"` // how long after At the lease may be relied on,
	Grace time.Duration `json:"grace,omitempty"` // and how long the end may take
}

// spec is the command to start.
type spec struct {
	Path       string        `json:"path"`
	Args       []string      `json:"args"`
	Dir        string        `json:"dir,omitempty"`
	Env        []string      `json:"env"`
	Grace      time.Duration `json:"grace"`                // for what the command leaves behind
	Foreground bool          `json:"foreground,omitempty"` // it has the terminal
}

// report is a message from the supervisor to the wrapper. One field is set.
type report struct {
	Started int    `json:"started,omitempty"` // pid
	Failed  string `json:"failed,omitempty"`  // why it could not be started
	Errno   int    `json:"errno,omitempty"`   // with Failed, if the system gave a number
	Overdue bool   `json:"overdue,omitempty"` // no word from the wrapper in time
	Exit    *exit  `json:"exit,omitempty"`
}

// exit is how the command ended.
type exit struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`
}

// keeper looks after the command: a guardian process, or an attendant in this
// one. Both run a supervisor.
type keeper interface {
	// group is the process group of the command; 0: not known yet, or none.
	group() int
	// order never blocks for long. An order that does not arrive is backed by
	// the deadline of the one before.
	order(order) error
	// reports is closed when the supervisor has ended.
	reports() <-chan report
	// signal sends to everything in the group.
	signal(sig syscall.Signal)
	// close kills what is left, and returns when nothing is.
	close()
}

// supervisor keeps a started command within its deadlines, and returns when
// nothing of it is left.
type supervisor struct {
	orders <-chan order // closed: the wrapper is gone
	exits  <-chan exit  // one, when the command has ended
	report func(report)
	signal func(syscall.Signal)
	busy   func() bool   // something of the group still runs
	family *family       // what has left the group, but not the command
	grace  time.Duration // for what the command leaves behind

	watch       watch
	reported    bool // that it is overdue
	ended       bool
	wholeFamily bool // the family must end, and not only what is left in the group
}

// orphanGrace is what a command gets whose wrapper was killed.
const orphanGrace = 500 * time.Millisecond

func (s *supervisor) run() {
	for {
		next := s.act()
		if s.ended {
			if !s.working() {
				return
			}
			next = min(next, killAgain)
		}
		timer := time.NewTimer(next)
		select {
		case o, ok := <-s.orders:
			s.obey(o, ok)
		case e := <-s.exits:
			s.ended, s.exits = true, nil
			s.report(report{Exit: &e})
			// What it left behind may still work under the lease.
			s.watch.stop(host.Now(), s.grace)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// act does what is due and returns when to look again.
func (s *supervisor) act() time.Duration {
	do, next := s.watch.due(host.Now())
	if s.ended && do != doNothing && !s.working() {
		return 0
	}
	if s.watch.overdue && !s.reported {
		s.reported, s.wholeFamily = true, true
		s.report(report{Overdue: true})
	}
	switch do {
	case doTerm:
		s.send(syscall.SIGTERM)
	case doKill:
		s.send(syscall.SIGKILL)
	}
	return next
}

// send goes to the family first: once a parent has ended, its children are not
// to be found by it.
func (s *supervisor) send(sig syscall.Signal) {
	switch {
	case !s.wholeFamily:
	case sig == syscall.SIGKILL:
		s.family.kill()
	default:
		s.family.signal(sig)
	}
	s.signal(sig)
}

// working reports whether something that must end still runs.
func (s *supervisor) working() bool { return s.busy() || s.wholeFamily && s.family.busy() }

func (s *supervisor) obey(o order, ok bool) {
	s.wholeFamily = s.wholeFamily || !ok || o.Stop
	switch {
	case !ok:
		s.orders = nil
		s.watch.stop(host.Now(), min(orphanGrace, s.grace/2))
	case o.Stop:
		s.watch.stop(o.At, o.Grace)
	default:
		s.watch.trust(o.At, o.Trust, o.Grace)
	}
}

// failure describes why a command did not start.
func failure(err error) report {
	r := report{Failed: err.Error()}
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		r.Failed = pe.Err.Error()
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		r.Errno = int(no)
	}
	return r
}

func exitOf(state *os.ProcessState, err error) exit {
	if err != nil {
		return exit{Code: 1}
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return exit{Signal: int(ws.Signal())}
	}
	return exit{Code: state.ExitCode()}
}
