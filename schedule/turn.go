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

// turn is one run, from the claim to its last record.
type turn struct {
	p     *pod
	abort context.CancelCauseFunc
	limit *time.Timer
	out   output
	began time.Time
	claimed

	mu    sync.Mutex
	tried bool // to write down how it ended
	err   error
	open  bool // it did not get there: someone has to draw the conclusion
}

// turn waits for something to do, and runs its command.
func (p *pod) turn() (retire bool, err error) {
	ctx, abort := context.WithCancelCause(p.Hard)
	defer abort(nil)
	t := &turn{p: p, abort: abort}
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
	p.ended(t, true)
	return false, nil
}

func (t *turn) claim(ctx context.Context, r lease.AcquireRequest) (runner.Claim, error) {
	c, err := t.p.await(ctx, r)
	if err != nil {
		return runner.Claim{}, err
	}
	t.begin(c)
	return runner.Claim{
		Lease: c.lease, Command: c.job.Command, Dir: c.job.Dir, Env: t.env(),
		Finish: func(ctx context.Context, res runner.Result, err error) error {
			return t.finish(ctx, t.verdict(res.ExitCode, err))
		},
	}, nil
}

// begin is what follows a claim.
func (t *turn) begin(c claimed) {
	t.claimed, t.began = c, time.Now()
	t.out.begin(c.fire.Job)
	for _, o := range c.lease.Grant().TookOver {
		t.say(LevelWarn, "took over", "The pod before has ended: %s (%s)", podOf(o.Owner), o.Why)
	}
	t.say(LevelInfo, "acquired", "Acquired lock for task: %s", t.label())
	t.say(LevelInfo, "running", "Running scheduled task: %s%s", c.fire.Job, t.nth())
	if d := c.job.MaxRun; d > 0 {
		t.limit = time.AfterFunc(d, func() { t.abort(errMaxRun) })
	}
}

func (t *turn) nth() string {
	if t.fire.Attempt > 1 {
		return fmt.Sprintf(" (attempt %d of %d)", t.fire.Attempt, t.job.MaxAttempts)
	}
	return ""
}

func (t *turn) label() string { return label(t.fire.Job, t.fire.At) }

func (t *turn) say(level Level, event, format string, args ...any) {
	f := t.fire
	t.p.say(Event{Level: level, Event: event, Job: f.Job, FireTime: &f.At, RunID: f.RunID, Attempt: f.Attempt, Token: f.Token}, format, args...)
}

// env is what the command finds in its environment.
func (t *turn) env() []string {
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

// verdict is what the end of a command or handler means.
func (t *turn) verdict(code int, err error) ending {
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

// finish writes down how it ended, which releases the lock.
func (t *turn) finish(ctx context.Context, e ending) error {
	_, err := finish(ctx, t.p.st, t.claimed, e)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tried, t.err = true, err
	return err
}

// end makes sure that the end is written down. Where finish could not, the
// token decides whether it still counts.
func (t *turn) end(res runner.Result, err error) {
	if t.limit != nil {
		t.limit.Stop()
	}
	t.out.flush()
	t.mu.Lock()
	tried, failed := t.tried, t.err
	t.mu.Unlock()
	e := t.verdict(res.ExitCode, err)
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
	t.open = e.again || failed != nil
	t.report(e, failed)
}

func (t *turn) report(e ending, err error) {
	f := t.fire
	ev := Event{Job: f.Job, FireTime: &f.At, RunID: f.RunID, Attempt: f.Attempt, Token: f.Token, Exit: e.exit, Seconds: time.Since(t.began).Seconds()}
	say := func(level Level, event, format string, args ...any) {
		ev.Level, ev.Event = level, event
		t.p.say(ev, format, args...)
	}
	switch {
	case err != nil:
		say(LevelWarn, "refused", "The end of %s could not be written: %v", t.label(), err)
		return
	case e.again:
		say(LevelWarn, "stopped", "Stopped %s; another pod goes on with it", t.label())
	case e.state == Done:
		say(LevelInfo, "done", "Completed scheduled task: %s in %s", f.Job, time.Since(t.began).Round(time.Millisecond))
	default:
		say(LevelWarn, string(e.state), "Scheduled task %s: %s: %s", e.state, t.label(), e.why)
	}
	say(LevelDebug, "released", "Released lock for task: %s", t.label())
}

// handle claims a fire time for a handler and calls it.
func (p *pod) handle(c candidate) {
	defer p.work.Done()
	defer p.leave()
	ctx, abort := context.WithCancelCause(p.Hard)
	defer abort(nil)
	got, err := p.attempt(ctx, c, lease.AcquireRequest{Owner: p.o.Pod, Session: "scheduler", Process: host.Self()})
	if err != nil {
		return
	}
	t := &turn{p: p, abort: abort}
	t.begin(got)
	err = t.call(got.lease.Context())
	if cause := context.Cause(got.lease.Context()); cause != nil {
		err = cause
	}
	code := 0
	if err != nil {
		code = -1
	}
	_ = got.lease.ReleaseWith(ctx, func(ctx context.Context) error { return t.finish(ctx, t.verdict(code, err)) }) // end has the error
	t.end(runner.Result{ExitCode: code}, err)
	p.ended(t, false)
}

// call runs the handler; one that panics has failed.
func (t *turn) call(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return t.p.handlers[t.fire.Job](ctx, t.fire)
}
