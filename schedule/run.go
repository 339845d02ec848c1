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

// runNext waits for a fire time, and runs its command. A slot that is not needed
// any more retires.
func (p *pod) runNext() (retire bool, err error) {
	ctx, abort := context.WithCancelCause(p.Hard)
	defer abort(nil)
	t := &run{p: p, abort: abort}
	cmds := p.o.Commands
	res, err := runner.Run(ctx, p.st, runner.Options{
		Acquire: lease.AcquireRequest{Owner: p.o.Pod, Session: "scheduler"},
		Claim:   t.claim,
		Dir:     cmds.Dir, Env: cmds.Env, Stdout: t.out.stream(cmds.Stdout), Stderr: t.out.stream(cmds.Stderr),
		Guardian: cmds.Guardian,
	})
	if t.lease == nil {
		return errors.Is(err, errRetired), err
	}
	t.end(res, err)
	p.runEnded(t, true)
	return false, nil
}

func (t *run) claim(ctx context.Context, r lease.AcquireRequest) (runner.Claim, error) {
	c, err := t.p.nextClaim(ctx, r)
	if err != nil {
		return runner.Claim{}, err
	}
	t.begin(c)
	return runner.Claim{
		Lease: c.lease, Command: c.job.Command, Dir: c.job.Dir, Env: t.env(),
		Finish: func(ctx context.Context, res runner.Result, err error) error {
			return t.finish(ctx, t.outcome(res.ExitCode, err))
		},
	}, nil
}

// begin notes the claim, logs it and starts the clock of MaxRun.
func (t *run) begin(c claimed) {
	t.claimed, t.began = c, time.Now()
	t.out.begin(c.fire.Job)
	for _, o := range c.lease.Grant().TookOver {
		t.say(LevelWarn, "took over", "The pod before has ended: %s (%s)", podOf(o.Owner), o.Why)
	}
	t.say(LevelInfo, "acquired", "Acquired lock for job: %s", t.label())
	t.say(LevelInfo, "running", "Running scheduled job: %s%s", c.fire.Job, t.attemptNote())
	if d := c.job.MaxRun; d > 0 {
		t.limit = time.AfterFunc(d, func() { t.abort(errMaxRun) })
	}
}

func (t *run) attemptNote() string {
	if t.fire.Attempt > 1 {
		return fmt.Sprintf(" (attempt %d of %d)", t.fire.Attempt, t.job.MaxAttempts)
	}
	return ""
}

func (t *run) label() string { return fireLabel(t.fire.Job, t.fire.At) }

func (t *run) entry(level Level, event string) LogEntry {
	f := t.fire
	return LogEntry{Level: level, Event: event, Job: f.Job, FireTime: &f.At, RunID: f.RunID, Attempt: f.Attempt, Token: f.Token}
}

func (t *run) say(level Level, event, format string, args ...any) {
	t.p.say(t.entry(level, event), format, args...)
}

// env is what the command finds in its environment.
func (t *run) env() []string {
	var env []string
	for name, value := range t.job.Env {
		env = append(env, name+"="+value)
	}
	return append(env,
		"TASKLOCK_KEY="+t.key,
		"TASKLOCK_TOKEN="+strconv.FormatInt(t.fire.Token, 10),
		"TASKLOCK_JOB="+t.fire.Job,
		"TASKLOCK_RUN_ID="+t.fire.RunID,
		"TASKLOCK_FIRE_TIME="+t.fire.At.UTC().Format(time.RFC3339Nano),
		"TASKLOCK_ATTEMPT="+strconv.Itoa(t.fire.Attempt),
	)
}

// outcome is how the fire time ends, by the end of its command or handler.
func (t *run) outcome(code int, err error) ending {
	e := ending{output: t.out.String()}
	if code >= 0 {
		e.exit = &code
	}
	again := t.job.OnCrash == CrashRetry && t.fire.Attempt < t.job.MaxAttempts
	var start *runner.StartError
	switch {
	case errors.Is(err, errStopped):
		e.state, e.why, e.again = Lost, "stopped: "+errStopped.Error(), again
	case errors.Is(err, errMaxRun):
		e.state, e.why = Failed, fmt.Sprintf("%v %s", errMaxRun, t.job.MaxRun)
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
func (t *run) finish(ctx context.Context, e ending) error {
	_, err := finish(ctx, t.p.st, t.claimed, e)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tried, t.err = true, err
	return err
}

// end makes sure that the end is written. If finish could not, the token decides
// whether it still counts.
func (t *run) end(res runner.Result, err error) {
	if t.limit != nil {
		t.limit.Stop()
	}
	t.out.flush()
	t.mu.Lock()
	tried, failed := t.tried, t.err
	t.mu.Unlock()
	e := t.outcome(res.ExitCode, err)
	if !tried {
		failed = store.ErrUnknown
	}
	ctx := context.WithoutCancel(t.p.Hard)
	for ended := time.Now(); store.Transient(failed) && time.Since(ended) < t.job.TTL && t.p.Hard.Err() == nil; {
		if _, failed = finish(ctx, t.p.st, t.claimed, e); store.Transient(failed) {
			t.say(LevelWarn, "trouble", "The store cannot be used, trying again: %v", failed)
			select {
			case <-time.After(again):
			case <-t.p.Hard.Done():
			}
		}
	}
	t.unfinished = e.again || failed != nil
	t.report(e, failed)
}

func (t *run) report(e ending, err error) {
	ran := time.Since(t.began)
	say := func(level Level, event, format string, args ...any) {
		entry := t.entry(level, event)
		entry.Exit, entry.Seconds = e.exit, ran.Seconds()
		t.p.say(entry, format, args...)
	}
	switch {
	case err != nil:
		say(LevelWarn, "refused", "The end of %s could not be written: %v", t.label(), err)
		return
	case e.again:
		say(LevelWarn, "stopped", "Stopped %s; another pod goes on with it", t.label())
	case e.state == Done:
		say(LevelInfo, "done", "Completed scheduled job: %s in %s", t.fire.Job, ran.Round(time.Millisecond))
	default:
		say(LevelWarn, string(e.state), "Scheduled job %s: %s: %s", e.state, t.label(), e.why)
	}
	say(LevelDebug, "released", "Released lock for job: %s", t.label())
}

// handle claims a fire time for a handler and calls it.
func (p *pod) handle(c candidate) {
	defer p.work.Done()
	defer p.endHandling()
	ctx, abort := context.WithCancelCause(p.Hard)
	defer abort(nil)
	got, err := p.attempt(ctx, c, lease.AcquireRequest{Owner: p.o.Pod, Session: "scheduler", Process: host.Self()})
	if err != nil {
		return
	}
	t := &run{p: p, abort: abort}
	t.begin(got)
	err = t.call(got.lease.Context())
	if cause := context.Cause(got.lease.Context()); cause != nil {
		err = cause
	}
	code := 0
	if err != nil {
		code = -1
	}
	_ = got.lease.ReleaseWith(ctx, func(ctx context.Context) error { return t.finish(ctx, t.outcome(code, err)) }) // end has the error
	t.end(runner.Result{ExitCode: code}, err)
	p.runEnded(t, false)
}

// call runs the handler; one that panics has failed.
func (t *run) call(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return t.p.handlers[t.fire.Job](ctx, t.fire)
}
