package schedule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/shutdown"
	"github.com/tasklock/tasklock/store"
)

// Scheduler fires the jobs of one store. Any number of them, on any number of
// machines, share the work.
type Scheduler struct {
	st       *store.Store
	handlers map[string]Handler
}

// Handler does the work of a fire time. Its context ends when the lease is
// lost, with a cause that is lock.ErrLost, when the job's MaxRun is over, and
// when the scheduler stops and its grace is over. An error makes the fire
// failed.
type Handler func(ctx context.Context, f Fire) error

// New returns a scheduler for the jobs in a store.
func New(st *store.Store) *Scheduler {
	return &Scheduler{st: st, handlers: map[string]Handler{}}
}

// Handle makes fn the work of the job of that name, in place of a command. It
// does not define the job: see [Apply].
func (s *Scheduler) Handle(name string, fn Handler) *Scheduler {
	s.handlers[name] = fn
	return s
}

// Options of [Scheduler.Run]. Every zero field means its documented default.
type Options struct {
	Pod        string        // who this is; default hostname-pid-random
	MaxRunning int           // commands at a time, and handlers; default 32
	Grace      time.Duration // how long runs may go on once the scheduler is to stop; default 30s
	Signals    bool          // take INT and TERM: the first stops, the second does not wait for Grace
	Once       bool          // return when nothing is due and nothing runs

	// Commands runs the jobs that have a command. Nil: only handlers.
	Commands *Commands

	Log func(LogEntry) // gets each step, one at a time; may be nil
}

// Commands says how to run commands.
type Commands struct {
	Dir            string   // of commands that name none
	Env            []string // nil: os.Environ()
	Guardian       []string // see runner.Options
	Stdout, Stderr io.Writer
}

// Level of an event.
type Level string

// The levels.
const (
	LevelDebug Level = "DEBUG"
	LevelInfo  Level = "INFO"
	LevelWarn  Level = "WARNING"
)

// LogEntry is one line of a scheduler's log.
type LogEntry struct {
	Time     time.Time  `json:"time"`
	Level    Level      `json:"level"`
	Pod      string     `json:"pod"`
	Event    string     `json:"event"`
	Message  string     `json:"message"`
	Job      string     `json:"job,omitempty"`
	FireTime *time.Time `json:"fireTime,omitempty"`
	RunID    string     `json:"runId,omitempty"`
	Attempt  int        `json:"attempt,omitempty"`
	Token    int64      `json:"token,omitempty"`
	Exit     *int       `json:"exitCode,omitempty"`
	Seconds  float64    `json:"seconds,omitempty"`
}

const (
	defaultGrace   = 30 * time.Second
	defaultRunning = 32
	longSleep      = time.Minute            // the safety net under notifications
	breath         = 100 * time.Millisecond // between two scans that changes cause
	maxWatched     = 90                     // locks that one wait looks at
)

// errStopped ends what a scheduler runs when its grace is over.
var errStopped = errors.New("the scheduler was stopped")

// Run fires jobs until ctx ends or a signal comes, and returns when nothing
// runs any more. It claims nothing new then; what runs may finish within the
// grace and is stopped after it, which counts as a crash.
//
// It goes by the store's clock. It tries for ever at a store that does not answer, or
// that begins to refuse what it allowed before: an error means that the trouble cannot
// pass, or that the first look was refused.
func (s *Scheduler) Run(ctx context.Context, opt *Options) error {
	p, err := s.newPod(opt)
	if err != nil {
		return err
	}
	p.Steps = shutdown.New(ctx, shutdown.Options{Grace: p.o.Grace, Cause: errStopped, Signals: p.signals(), Heard: p.heard})
	defer p.Close()
	p.say(LogEntry{Event: "started"}, "Scheduler started: %s", p.o.Pod)
	leave := p.announce()
	err = p.loop()
	p.Stop()
	p.work.Wait()
	p.leaveQueues(nil)
	leave()
	p.say(LogEntry{Event: "stopped"}, "Scheduler stopped")
	return err
}

// pod is one running scheduler.
type pod struct {
	st       *store.Store
	handlers map[string]Handler
	o        Options

	*shutdown.Steps
	work sync.WaitGroup
	dispatcher

	memory  memory            // of the loop
	damaged map[string]string // jobs that cannot be looked at, and why; of the loop
	saying  sync.Mutex
}

func (s *Scheduler) newPod(opt *Options) (*pod, error) {
	p := &pod{st: s.st, handlers: s.handlers}
	if opt != nil {
		p.o = *opt
	}
	p.o.Pod = orElse(p.o.Pod, fmt.Sprintf("%s-%d-%s", host.Name(), host.Self().PID, lease.NewID()))
	p.o.MaxRunning = orElse(p.o.MaxRunning, defaultRunning)
	p.o.Grace = orElse(p.o.Grace, defaultGrace)
	switch {
	case p.o.MaxRunning < 0:
		return nil, &lease.InvalidError{What: "number of runs at a time", Rule: "must not be negative"}
	case p.o.Grace < 0:
		return nil, &lease.InvalidError{What: "grace " + p.o.Grace.String(), Rule: "must not be negative"}
	case podOf(p.o.Pod) != p.o.Pod:
		return nil, &lease.InvalidError{What: "name of a pod", Rule: "must not hold '/'"}
	}
	p.dispatcher.init()
	return p, lease.CheckOwner(p.o.Pod)
}

func (p *pod) signals() []os.Signal {
	if !p.o.Signals {
		return nil
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM}
}

func (p *pod) heard(sig os.Signal) {
	p.say(LogEntry{Event: "stopping"}, "Stopping: %s; %d running", sig, p.running())
}

func (p *pod) say(e LogEntry, format string, args ...any) {
	if p.o.Log == nil {
		return
	}
	p.saying.Lock()
	defer p.saying.Unlock()
	e.Time, e.Pod, e.Message = time.Now().UTC(), p.o.Pod, fmt.Sprintf(format, args...)
	e.Level = orElse(e.Level, LevelInfo)
	p.o.Log(e)
}
