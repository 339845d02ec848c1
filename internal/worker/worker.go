// Package worker is the loop of a runner: it claims one ready task after the
// other, runs a command under the task's lease, and writes how the task ended.
//
// A task and its lock change in one commit, at the claim and at the end, so the
// store refuses what a runner reports after another has taken over. The runner
// acquires an exclusive section before its first task and keeps it until nothing
// in it is ready; other runners wait for it, or work in another section. The
// tasks of a runner that died go to the next one that looks, at once if the death
// is proved.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/presence"
	"github.com/tasklock/tasklock/internal/shutdown"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// Options of [Work]. Every zero field means its documented default.
type Options struct {
	Owner string // whose child the runner is; required
	Name  string // of the runner, while it runs nobody else's; empty: a random one

	Section string // only tasks of this section
	Label   string // only tasks with this label
	Pool    string // a command runs only with a slot of this pool

	// Command is the program and its arguments. In the arguments {id},
	// {title}, {section}, {attempt} and {token} stand for the task's; no
	// shell sees them.
	Command []string
	Dir     string   // empty: where we are
	Env     []string // nil: os.Environ(); TASKLOCK_* of the task are added

	NoStdin        bool      // the null device in place of the task as JSON
	Stdout, Stderr io.Writer // of the commands; nil: the null device
	KeepOutput     bool      // the last lines of stdout become the task's result

	Max     int           // stop after so many runs of the command; 0: no bound
	Wait    bool          // stay when nothing is ready; else return
	Retries int           // a task whose command fails goes back so many times, then it is failed
	TTL     time.Duration // of the leases; 0: as the store needs it
	MaxHold time.Duration // a command that runs longer is stopped, which counts as failed; 0: no bound

	// Grace is how long the task in hand may go on once the runner is to
	// stop; then its command is stopped and the task goes back. 0: 10 seconds.
	Grace time.Duration

	// Signals takes INT, TERM and HUP of this process: the first stops the
	// runner as the end of ctx does, the second does not wait for Grace.
	Signals bool

	Guardian []string       // see runner.Options
	Log      func(LogEntry) // gets each step, one at a time; may be nil
}

// LogEntry is one line of a runner's log.
type LogEntry struct {
	Time    time.Time `json:"time"`
	Runner  string    `json:"runner"`
	Event   string    `json:"event"`
	Message string    `json:"message"`
	Task    string    `json:"task,omitempty"`
	Title   string    `json:"title,omitempty"`
	Section string    `json:"section,omitempty"`
	Token   int64     `json:"token,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Exit    *int      `json:"exitCode,omitempty"`
	Total   *Summary  `json:"total,omitempty"` // with the last one
}

// Summary counts what became of the tasks that a runner took.
type Summary struct {
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Retried   int `json:"retried"` // gone back after a failure
	Stopped   int `json:"stopped"` // gone back because the runner was to stop
	Refused   int `json:"refused"` // someone else had taken over
}

// Work claims one task after the other, runs the command under the task's lease
// as [runner.Run] does, and completes the task if the command exits with 0. A
// command that fails sends the task back until its attempts, by any runner,
// exceed Retries.
//
// The end of ctx stops the runner, see Grace, and is not an error. Once it has
// begun, it tries again what can pass by itself ([store.MayPass]): with Wait for
// ever, else for a minute. Other errors than those of the store are
// [*runner.StartError] if the command cannot start, [*RunningError] if another
// runner has that name, and [*lease.PoolSizeError] if there is no such pool, or
// somebody removed it.
func Work(ctx context.Context, st *store.Store, o Options) (Summary, error) {
	w, err := newWorker(st, o)
	if err != nil {
		return Summary{}, err
	}
	if err := w.checkPool(ctx); err != nil {
		return Summary{}, err
	}
	w.Steps = shutdown.New(ctx, shutdown.Options{Grace: w.o.Grace, Cause: errStopped, Signals: w.signals(), Heard: w.heard})
	defer w.Close()
	if err := w.register(ctx); err != nil {
		return Summary{}, err
	}
	attended := make(chan struct{})
	attend, leave := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(attended)
		w.keepRecord(attend)
	}()
	err = w.loop()
	if w.section != nil {
		w.leaveSection("Releasing section lock")
	}
	leave()
	<-attended
	presence.Remove(w.Soft, w.st, runnerKind, w.o.Name)
	w.say(LogEntry{Event: "stopped", Total: &w.sum}, "Stopped: %d completed, %d failed, %d gone back", w.sum.Completed, w.sum.Failed, w.sum.Retried+w.sum.Stopped)
	return w.sum, err
}

// worker is one runner.
type worker struct {
	st    *store.Store
	o     Options
	owner string // of all that it holds
	pool  string // the key of its pool

	*shutdown.Steps
	id  string       // of this start, in its record
	rev atomic.Int64 // of its record

	section     *lease.Lease // kept from task to task
	sectionName string       // its name
	untried     bool         // nothing was found in it yet
	slot        *lease.Lease // that it waited for, until the next task ends
	runs        int
	idling      bool
	waitsFor    *task.Closed // the section that is waited for, and why
	sum         Summary

	logging sync.Mutex
}

// Why a runner stops what it does.
var (
	errStopped = errors.New("the runner was stopped")
	errMaxHold = errors.New("ran longer than it may")
)

const defaultGrace = 10 * time.Second

func newWorker(st *store.Store, o Options) (*worker, error) {
	if o.Name == "" {
		o.Name = "r-" + lease.NewID()[:6]
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	if o.TTL == 0 {
		o.TTL = lease.TimesOf(st.Scheme()).Attached
	}
	if _, err := lease.CheckKey(o.Name); err != nil || strings.Contains(o.Name, "/") {
		return nil, &lease.InvalidError{What: "name of a runner", Rule: "must be visible text without '/'"}
	}
	switch {
	case o.Max < 0 || o.Retries < 0:
		return nil, &lease.InvalidError{What: "number of tasks or retries", Rule: "must not be negative"}
	case o.MaxHold < 0 || o.Grace < 0:
		return nil, &lease.InvalidError{What: "max hold or grace", Rule: "must not be negative"}
	}
	if err := (&runner.Options{Command: o.Command, Dir: o.Dir}).Check(); err != nil {
		return nil, err
	}
	w := &worker{st: st, o: o, owner: o.Owner + "/" + o.Name, id: lease.NewID()}
	return w, errors.Join(lease.CheckOwner(w.owner), lease.CheckTTL(o.TTL))
}

func (w *worker) signals() []os.Signal {
	if !w.o.Signals {
		return nil
	}
	return shutdown.Heeded(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

func (w *worker) heard(sig os.Signal) { w.say(LogEntry{Event: "stopping"}, "Stopping: %s", sig) }

// loop works until there is a reason to end.
func (w *worker) loop() error {
	for failures := 0; ; {
		if w.Soft.Err() != nil || w.o.Max > 0 && w.runs >= w.o.Max {
			return nil
		}
		err := w.runNext()
		none, nothing := errors.AsType[*task.NothingReadyError](err)
		if nothing && w.section != nil {
			w.leaveSection("No more tasks in %s, releasing section lock", w.sectionName)
			if !w.untried {
				continue
			}
		}
		switch {
		case err == nil:
			failures = 0
			continue
		case nothing:
			if more, err := w.idle(none); !more {
				return err
			}
			failures = 0
		case errors.Is(err, errStopped):
			return nil
		case store.MayPass(err) && (w.o.Wait || failures < 5):
			failures++
			w.trouble(LogEntry{}, err, failures)
		default:
			return err
		}
	}
}

// trouble logs that the store cannot be used now, and waits.
func (w *worker) trouble(e LogEntry, err error, failures int) {
	e.Event = "trouble"
	w.say(e, "The store cannot be used, trying again: %v", err)
	w.pause(failures)
}

// pause is longer after each failure, and short when it is time to stop.
func (w *worker) pause(failures int) {
	select {
	case <-time.After(min(time.Second<<min(failures, 5), 30*time.Second)):
	case <-w.Soft.Done():
		time.Sleep(100 * time.Millisecond)
	}
}

func (w *worker) say(e LogEntry, format string, args ...any) {
	if w.o.Log == nil {
		return
	}
	w.logging.Lock()
	defer w.logging.Unlock()
	e.Time, e.Runner, e.Message = time.Now().UTC(), w.o.Name, fmt.Sprintf(format, args...)
	w.o.Log(e)
}

// enterSection takes a section for as long as there is something to do in it.
func (w *worker) enterSection(ctx context.Context, section, key string) error {
	lease, err := lease.Hold(context.WithoutCancel(ctx), w.st, lease.AcquireRequest{
		Keys: []string{key}, Owner: w.holder(), TTL: w.o.TTL, Session: sessionPrefix + w.o.Name,
	})
	if err != nil {
		return err
	}
	w.section, w.sectionName, w.untried = lease, section, true
	for _, t := range lease.Grant().TookOver {
		w.logTookOver(LogEntry{Section: section}, t)
	}
	w.say(LogEntry{Event: "section acquired", Section: section, Token: lease.Token()}, "Acquired section lock on %s", section)
	return nil
}

func (w *worker) leaveSection(format string, args ...any) {
	w.say(LogEntry{Event: "section released", Section: w.sectionName}, format, args...)
	if err := w.section.Release(context.WithoutCancel(w.Soft)); err != nil {
		w.say(LogEntry{Event: "trouble", Section: w.sectionName}, "Section %s was not released: %v", w.sectionName, err)
	}
	w.section = nil
}

func (w *worker) logTookOver(e LogEntry, t lease.TakenOver) {
	e.Event = "took over"
	if t.Why == lease.Dead {
		w.say(e, "Lock exists but its holder is dead (%s)", runnerOf(t.Owner, w.o.Owner))
	} else {
		w.say(e, "Lock exists but expired (held by %s)", runnerOf(t.Owner, w.o.Owner))
	}
	w.say(e, "Claiming expired lock")
}

// sessionPrefix marks the leases of runners.
const sessionPrefix = "runner:"

// holderName is the holder of a lock: a runner by its own name.
func holderName(l lease.Info) string {
	if name, ok := strings.CutPrefix(l.Session, sessionPrefix); ok {
		return name
	}
	return l.Owner
}

// runnerOf is the name of a runner of the same user, else the owner in full.
func runnerOf(owner, user string) string {
	if rest, ok := strings.CutPrefix(owner, user+"/"); ok {
		return slices.Collect(strings.SplitSeq(rest, "/"))[0]
	}
	return owner
}
