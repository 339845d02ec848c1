package schedule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/shutdown"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
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

	Log func(Event) // is told about each step, one at a time; may be nil
}

// Commands is how to run them.
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

// Event is one line of a scheduler's log.
type Event struct {
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
// It goes by the clock of the store. A store that does not answer is tried
// again for ever, and so is one that begins to refuse what it allowed before: an
// error means that this cannot pass by itself, or that the first look was refused.
func (s *Scheduler) Run(ctx context.Context, opt *Options) error {
	p, err := s.newPod(opt)
	if err != nil {
		return err
	}
	p.Steps = shutdown.New(ctx, shutdown.Options{Grace: p.o.Grace, Cause: errStopped, Signals: p.signals(), Heard: p.heard})
	defer p.Close()
	p.say(Event{Event: "started"}, "Scheduler started: %s", p.o.Pod)
	leave := p.announce()
	err = p.loop()
	p.Stop()
	p.work.Wait()
	leave()
	p.say(Event{Event: "stopped"}, "Scheduler stopped")
	return err
}

// pod is one running scheduler.
type pod struct {
	st       *store.Store
	handlers map[string]Handler
	o        Options

	*shutdown.Steps
	work sync.WaitGroup
	crew

	told   map[string]string // jobs that cannot be looked at, and why; of the loop
	saying sync.Mutex
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
	p.crew.init()
	return p, lease.CheckOwner(p.o.Pod)
}

func (p *pod) signals() []os.Signal {
	if !p.o.Signals {
		return nil
	}
	return []os.Signal{os.Interrupt, syscall.SIGTERM}
}

func (p *pod) heard(sig os.Signal) {
	p.say(Event{Event: "stopping"}, "Stopping: %s; %d running", sig, p.running())
}

// view is one look at what is due.
type view struct {
	rev   int64
	ready []candidate   // what may be claimed now
	sleep time.Duration // until the next one
	keys  []string      // locks of runs that are not ours

	damaged []*DamagedError // jobs that cannot be looked at
	trouble error           // with a job that does not fire because of it
}

// candidate is a job that has something to do.
type candidate struct {
	job string
	key string
	at  time.Time
	ttl time.Duration
	rev int64 // of its due record

	trouble trouble // what kept this pod from claiming it
}

// loop looks, hands out what is ready, and sleeps until the next fire time or
// change.
func (p *pod) loop() error {
	for looked := false; p.Soft.Err() == nil; {
		began, quiet := time.Now(), p.quiet() // in this order: what ends after it may leave something to do
		v, err := p.look()
		switch {
		case p.Soft.Err() != nil:
			return nil
		case err != nil && (!store.MayPass(err) || !looked && driver.Refusal(err)):
			return err
		case err != nil:
			p.pause(p.storeFailed(began, err, true))
			continue
		}
		looked = true
		p.storeRead()
		p.tell(v.damaged)
		if p.o.Once && len(v.ready) == 0 && quiet {
			return v.trouble
		}
		if p.rest() <= 0 {
			p.offer(v.ready)
		}
		p.sleep(v)
		p.pause(min(breath, v.sleep) - time.Since(began))
	}
	return nil
}

// sleep returns when there may be something to do.
func (p *pod) sleep(v view) {
	ctx, cancel := context.WithCancel(p.Soft)
	defer cancel()
	p.mu.Lock()
	if p.cancel = cancel; p.poked { // while we looked
		cancel()
	}
	p.poked = false
	p.mu.Unlock()
	if err := lease.Await(ctx, p.st, v.keys, v.sleep, driver.Guard{Key: dueKind, Rev: v.rev}); err != nil && ctx.Err() == nil {
		p.pause(time.Second)
	}
}

func (p *pod) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-p.Soft.Done():
	}
}

// look reads all that is due in one scan, and the locks of what runs.
func (p *pod) look() (view, error) {
	var v view
	err := dues(p.Soft, p.st, driver.Query{}, func(tx *store.Tx, all dueList) error {
		v = view{rev: tx.Rev(), sleep: longSleep, damaged: all.damaged}
		if len(all.damaged) > 0 {
			v.trouble = all.damaged[0]
		}
		var dues []store.Entry[dueRecord]
		for _, d := range all.list {
			if p.can(d.Value) {
				dues = append(dues, d)
			}
		}
		if err := p.elsewhere(tx, dues, &v); err != nil {
			return err
		}
		return p.sort(tx, dues, &v)
	})
	rand.Shuffle(len(v.ready), func(i, j int) { v.ready[i], v.ready[j] = v.ready[j], v.ready[i] }) // pods begin at different ends
	return v, err
}

// tell says once of each job that cannot be looked at, and when it can be again.
func (p *pod) tell(damaged []*DamagedError) {
	now := map[string]string{}
	for _, d := range damaged {
		if now[d.Job] = d.Error(); p.told[d.Job] != now[d.Job] {
			p.say(Event{Level: LevelWarn, Event: "damaged", Job: d.Job}, "%s", d.warning())
		}
	}
	for _, job := range slices.Sorted(maps.Keys(p.told)) {
		if now[job] == "" {
			p.say(Event{Event: "mended", Job: job}, "Job %s can be read again", job)
		}
	}
	p.told = now
}

// can reports whether this pod knows how to run the job.
func (p *pod) can(d dueRecord) bool {
	return p.handlers[d.Job] != nil || !d.Handler && p.o.Commands != nil
}

// elsewhere lists the locks of runs on other pods, as many as a wait can watch.
func (p *pod) elsewhere(tx *store.Tx, dues []store.Entry[dueRecord], v *view) error {
	for _, d := range dues {
		for _, r := range d.Value.Running {
			if !p.mine(r.Lease) {
				v.keys = append(v.keys, r.Key)
			}
		}
		if p.waits(d.Value.Job, d.Rev) {
			v.keys = append(v.keys, lockPrefix+d.Value.Job)
		}
	}
	if len(v.keys) > maxWatched {
		rand.Shuffle(len(v.keys), func(i, j int) { v.keys[i], v.keys[j] = v.keys[j], v.keys[i] })
		v.keys, v.sleep = v.keys[:maxWatched], time.Second
	}
	return lease.WantLook(tx, v.keys...)
}

// sort tells what can be claimed now from what comes later.
func (p *pod) sort(tx *store.Tx, dues []store.Entry[dueRecord], v *view) error {
	now := clock(tx)
	dead := map[string]bool{}
	for _, key := range v.keys {
		lk, err := lease.Look(tx, key)
		if err != nil {
			return err
		}
		dead[key] = lk == nil || lk.State != lease.Held
	}
	for _, e := range dues {
		d := e.Value
		c := candidate{job: d.Job, ttl: span(d.TTL), rev: e.Rev}
		ready := false
		for _, r := range d.Running {
			if dead[r.Key] && !p.mine(r.Lease) {
				ready, c.at, c.key = true, r.At, d.key(r.At)
			}
		}
		waits := p.waits(d.Job, e.Rev) && !free(d, dead)
		switch {
		case ready:
		case len(d.Triggers) > 0:
			ready, c.at = true, d.Triggers[0].At
			if waits && d.At != nil && d.QueuedAt == nil { // it is to stand in line once it comes
				if waits = !d.comes(now); waits {
					v.sleep = min(v.sleep, d.start().Sub(now))
				}
			}
		case d.At == nil:
			continue
		default:
			left := d.start().Sub(now)
			ready, c.at = left <= 0, *d.At
			if !ready {
				v.sleep = min(v.sleep, left)
			}
		}
		if ready && !waits {
			if err := p.rests(d.Job, e.Rev); err != nil {
				v.trouble = orElse(v.trouble, err)
				continue
			}
			c.key = orElse(c.key, d.key(c.at))
			v.ready = append(v.ready, c)
		}
	}
	return nil
}

// free reports whether what a blocked job waited for has ended.
func free(d dueRecord, dead map[string]bool) bool {
	for _, r := range d.Running {
		if !d.Each && !dead[r.Key] {
			return false
		}
	}
	return dead[lockPrefix+d.Job]
}

func (p *pod) say(e Event, format string, args ...any) {
	if p.o.Log == nil {
		return
	}
	p.saying.Lock()
	defer p.saying.Unlock()
	e.Time, e.Pod, e.Message = time.Now().UTC(), p.o.Pod, fmt.Sprintf(format, args...)
	e.Level = orElse(e.Level, LevelInfo)
	p.o.Log(e)
}
