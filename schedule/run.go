package schedule

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
)

// errMaxRun: a run took longer than its job allows.
var errMaxRun = errors.New("ran longer than max-run")

// run is one run, from the claim to its last record.
type run struct {
	p     *pod
	abort context.CancelCauseFunc
	limit *time.Timer
	out   output
	began time.Time
	claimed

	mu         sync.Mutex
	tried      bool // to write how it ended
	err        error
	unfinished bool // another pod has to write how it ended
}

// runNext waits for a fire time, and runs its command. An unneeded slot retires.
func (p *pod) runNext() (retire bool, err error) {
	ctx, abort := context.WithCancelCause(p.Hard)
	defer abort(nil)
	r := &run{p: p, abort: abort}
	cmds := p.o.Commands
	res, err := runner.Run(ctx, p.st, runner.Options{
		Acquire: lease.AcquireRequest{Owner: p.o.Pod, Session: "scheduler"},
		Claim:   r.claim,
		Dir:     cmds.Dir, Env: cmds.Env, Stdout: r.out.stream(cmds.Stdout), Stderr: r.out.stream(cmds.Stderr),
		Guardian: cmds.Guardian,
	})
	if r.lease == nil {
		return errors.Is(err, errRetired), err
	}
	r.end(res, err)
	p.runEnded(r, true)
	return false, nil
}

func (r *run) claim(ctx context.Context, req lease.AcquireRequest) (runner.Claim, error) {
	c, err := r.p.nextClaim(ctx, req)
	if err != nil {
		return runner.Claim{}, err
	}
	r.begin(c)
	return runner.Claim{
		Lease: c.lease, Command: c.job.Command, Dir: c.job.Dir, Env: r.env(),
		Finish: func(ctx context.Context, res runner.Result, err error) error {
			return r.finish(ctx, r.outcome(res.ExitCode, err))
		},
	}, nil
}

// begin notes the claim, logs it and starts the clock of MaxRun.
func (r *run) begin(c claimed) {
	r.claimed, r.began = c, time.Now()
	r.out.begin(c.fire.Job)
	for _, o := range c.lease.Grant().TookOver {
		r.say(LevelWarn, "took over", "The pod before has ended: %s (%s)", podOf(o.Owner), o.Why)
	}
	r.say(LevelInfo, "acquired", "Acquired lock for job: %s", r.label())
	r.say(LevelInfo, "running", "Running scheduled job: %s%s", c.fire.Job, r.attemptNote())
	if d := c.job.MaxRun; d > 0 {
		r.limit = time.AfterFunc(d, func() { r.abort(errMaxRun) })
	}
}

func (r *run) attemptNote() string {
	if r.fire.Attempt > 1 {
		return fmt.Sprintf(" (attempt %d of %d)", r.fire.Attempt, r.job.MaxAttempts)
	}
	return ""
}

func (r *run) label() string { return fireLabel(r.fire.Job, r.fire.At) }

func (r *run) entry(level Level, event string) LogEntry {
	f := r.fire
	return LogEntry{Level: level, Event: event, Job: f.Job, FireTime: &f.At, RunID: f.RunID, Attempt: f.Attempt, Token: f.Token}
}

func (r *run) say(level Level, event, format string, args ...any) {
	r.p.say(r.entry(level, event), format, args...)
}

// env is the environment of the command.
func (r *run) env() []string {
	var env []string
	for name, value := range r.job.Env {
		env = append(env, name+"="+value)
	}
	return append(env,
		"TASKLOCK_KEY="+r.key,
		"TASKLOCK_TOKEN="+strconv.FormatInt(r.fire.Token, 10),
		"TASKLOCK_JOB="+r.fire.Job,
		"TASKLOCK_RUN_ID="+r.fire.RunID,
		"TASKLOCK_FIRE_TIME="+r.fire.At.UTC().Format(time.RFC3339Nano),
		"TASKLOCK_ATTEMPT="+strconv.Itoa(r.fire.Attempt),
	)
}

// outcome is how the fire time ends, by the end of its command or handler.
func (r *run) outcome(code int, err error) ending {
	e := ending{output: r.out.String()}
	if code >= 0 {
		e.exit = &code
	}
	again := r.job.OnCrash == CrashRetry && r.fire.Attempt < r.job.MaxAttempts
	var start *runner.StartError
	switch {
	case errors.Is(err, errStopped):
		e.state, e.why, e.again = Lost, "stopped: "+errStopped.Error(), again
	case errors.Is(err, errMaxRun):
		e.state, e.why = Failed, fmt.Sprintf("%v %s", errMaxRun, r.job.MaxRun)
	case errors.Is(err, lease.ErrLost):
		e.state, e.why, e.again = Lost, err.Error(), again
	case errors.As(err, &start):
		e.state, e.why = Failed, err.Error()
	case code == 0:
		e.state = Done
	case err != nil:
		e.state, e.why = Failed, err.Error()
	default:
		e.state, e.why = Failed, fmt.Sprintf("exit code %d", code)
	}
	return e
}

// finish writes how the run ended, which releases the lock.
func (r *run) finish(ctx context.Context, e ending) error {
	_, err := finish(ctx, r.p.st, r.claimed, e)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried, r.err = true, err
	return err
}

// end makes sure that the end is written. If finish could not, the token decides
// whether it still counts.
func (r *run) end(res runner.Result, err error) {
	if r.limit != nil {
		r.limit.Stop()
	}
	r.out.flush()
	r.mu.Lock()
	tried, failed := r.tried, r.err
	r.mu.Unlock()
	e := r.outcome(res.ExitCode, err)
	if !tried {
		failed = store.ErrUnknown
	}
	ctx := context.WithoutCancel(r.p.Hard)
	for ended := time.Now(); store.Transient(failed) && time.Since(ended) < r.job.TTL && r.p.Hard.Err() == nil; {
		if _, failed = finish(ctx, r.p.st, r.claimed, e); store.Transient(failed) {
			r.say(LevelWarn, "trouble", "The store cannot be used, trying again: %v", failed)
			select {
			case <-time.After(again):
			case <-r.p.Hard.Done():
			}
		}
	}
	r.unfinished = e.again || failed != nil
	r.report(e, failed)
}

func (r *run) report(e ending, err error) {
	ran := time.Since(r.began)
	say := func(level Level, event, format string, args ...any) {
		entry := r.entry(level, event)
		entry.Exit, entry.Seconds = e.exit, ran.Seconds()
		r.p.say(entry, format, args...)
	}
	switch {
	case err != nil:
		say(LevelWarn, "refused", "The end of %s could not be written: %v", r.label(), err)
		return
	case e.again:
		say(LevelWarn, "stopped", "Stopped %s; another pod goes on with it", r.label())
	case e.state == Done:
		say(LevelInfo, "done", "Completed scheduled job: %s in %s", r.fire.Job, ran.Round(time.Millisecond))
	default:
		say(LevelWarn, string(e.state), "Scheduled job %s: %s: %s", e.state, r.label(), e.why)
	}
	say(LevelDebug, "released", "Released lock for job: %s", r.label())
}

// handle claims a fire time for a handler and calls it.
func (p *pod) handle(c candidate) {
	ctx, abort := context.WithCancelCause(p.Hard)
	defer abort(nil)
	got, err := p.attempt(ctx, c, lease.AcquireRequest{Owner: p.o.Pod, Session: "scheduler", Process: host.Self()})
	if err != nil {
		return
	}
	r := &run{p: p, abort: abort}
	r.begin(got)
	err = r.call(got.lease.Context())
	if cause := context.Cause(got.lease.Context()); cause != nil {
		err = cause
	}
	code := 0
	if err != nil {
		code = -1
	}
	_ = got.lease.ReleaseWith(ctx, func(ctx context.Context) error { return r.finish(ctx, r.outcome(code, err)) }) // end has the error
	r.end(runner.Result{ExitCode: code}, err)
	p.runEnded(r, false)
}

// call runs the handler; a panic is a failure.
func (r *run) call(ctx context.Context) (err error) {
	defer func() {
		if bug := recover(); bug != nil {
			err = fmt.Errorf("panic: %v", bug)
		}
	}()
	return r.p.handlers[r.fire.Job](ctx, r.fire)
}
