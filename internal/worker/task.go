package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// taskRun is one task in the hands of a worker.
type taskRun struct {
	w     *worker
	task  task.Task
	lease *lease.Lease // nil: nothing was claimed
	token int64
	under string // the lease of the claim
	input *lateReader
	out   *tail
	limit *time.Timer
	abort context.CancelCauseFunc

	mu    sync.Mutex
	tried bool // finish has tried to write how it ended
	do    task.StatusRequest
	err   error
}

// runNext takes one task and sees it through.
func (w *worker) runNext() error {
	ctx, abort := context.WithCancelCause(w.Hard)
	defer abort(nil)
	run := &taskRun{w: w, abort: abort}
	o := runner.Options{
		Acquire: lease.AcquireRequest{Owner: w.owner, TTL: w.o.TTL, Session: sessionPrefix + w.o.Name},
		Claim:   run.claim,
		Command: w.o.Command, Dir: w.o.Dir, Env: w.o.Env, Stdout: w.o.Stdout, Stderr: w.o.Stderr,
		Guardian: w.o.Guardian,
	}
	if !w.o.NoStdin {
		run.input = &lateReader{ready: make(chan struct{})}
		o.Stdin = run.input
	}
	if w.o.KeepOutput {
		run.out = &tail{to: w.o.Stdout}
		o.Stdout = run.out
	}
	res, err := runner.Run(ctx, w.st, o)
	defer run.leavePool()
	if run.lease == nil {
		return err
	}
	if run.limit != nil {
		run.limit.Stop()
	}
	w.runs++
	return run.settle(res, err)
}

// claim takes the next task, and its section before it.
func (run *taskRun) claim(ctx context.Context, r lease.AcquireRequest) (runner.Claim, error) {
	c, err := run.claimNext(ctx, r)
	if err != nil {
		run.input.open(nil) // the command may be reading
	}
	return c, err
}

func (run *taskRun) claimNext(ctx context.Context, r lease.AcquireRequest) (runner.Claim, error) {
	w := run.w
	for tries := 0; ; tries++ {
		if w.Soft.Err() != nil {
			return runner.Claim{}, errStopped
		}
		if w.section != nil && w.section.Err() != nil {
			w.leaveSection("Lost the section lock on %s", w.sectionName)
		}
		req := task.NextRequest{Section: w.o.Section, Label: w.o.Label, Pool: w.pool, Acquire: r}
		req.Acquire.Owner = w.holder()
		again := w.section != nil && !w.untried
		if w.section != nil {
			req.Section = w.sectionName
		}
		if again {
			w.say(LogEntry{Event: "checking", Section: w.sectionName}, "Checking for next task in %s...", w.sectionName)
		}
		t, held, err := task.HoldNext(ctx, w.st, req)
		if outside, ok := errors.AsType[*task.SectionError](err); ok {
			err = w.enterSection(ctx, outside.Section, outside.Key)
			_, refused := errors.AsType[*lease.HeldError](err)
			if refused && tries > 0 {
				return runner.Claim{}, &task.NothingReadyError{} // others queue for it
			}
			if err == nil || refused {
				continue
			}
		}
		if full, ok := errors.AsType[*lease.HeldError](err); ok && w.pool != "" && full.Asked == w.pool {
			if err = w.waitForSlot(r, full); err == nil {
				continue
			}
		}
		if _, ok := errors.AsType[*lease.PoolSizeError](err); ok {
			err = &lease.PoolSizeError{Pool: w.poolName()} // somebody removed it
		}
		if err != nil {
			return runner.Claim{}, err
		}
		w.untried, w.idling, w.waitsFor = false, false, nil
		run.claimed(t, held, again)
		return runner.Claim{Lease: held, Args: run.args(), Env: run.env(), Finish: run.finish}, nil
	}
}

// claimed notes what was claimed.
func (run *taskRun) claimed(t task.Task, held *lease.Lease, again bool) {
	run.task, run.lease = t, held
	for _, k := range held.Grant().Keys {
		if k.Key == t.ID {
			run.token, run.under = k.Token, k.Lease
		}
	}
	switch {
	case again:
		run.say("starting", "Found %s, acquiring lock...", t.Title)
	case t.Section != "":
		run.say("starting", "Starting %q in %s section", t.Title, t.Section)
	default:
		run.say("starting", "Starting %q", t.Title)
	}
	for _, o := range held.Grant().TookOver {
		run.w.logTookOver(run.event(""), o)
	}
	run.say("acquired", "Acquired lock on %s (%s, token %d)", t.Title, t.ID, run.token)
	if t.Attempts > 1 {
		run.say("working", "Restarting %s (attempt %d)...", t.Title, t.Attempts)
	} else {
		run.say("working", "Working on %s...", t.Title)
	}
	if d := run.w.o.MaxHold; d > 0 {
		run.limit = time.AfterFunc(d, func() { run.abort(errMaxHold) })
	}
	run.input.open(run.document())
}

func (run *taskRun) event(kind string) LogEntry {
	return LogEntry{Event: kind, Task: run.task.ID, Title: run.task.Title, Section: run.task.Section, Token: run.token, Attempt: run.task.Attempts}
}

func (run *taskRun) say(kind, format string, args ...any) {
	run.w.say(run.event(kind), format, args...)
}

// document is the task for the command's standard input.
func (run *taskRun) document() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(struct { // what came from JSON goes back into it
		task.Task
		Token int64 `json:"token"`
	}{run.task, run.token})
	return b.Bytes()
}

func (run *taskRun) env() []string {
	return []string{
		"TASKLOCK_KEY=" + run.task.ID,
		"TASKLOCK_TOKEN=" + strconv.FormatInt(run.token, 10),
		"TASKLOCK_TASK_ID=" + run.task.ID,
		"TASKLOCK_TASK_TITLE=" + run.task.Title,
		"TASKLOCK_TASK_SECTION=" + run.task.Section,
		"TASKLOCK_ATTEMPT=" + strconv.Itoa(run.task.Attempts),
	}
}

// args fills in the placeholders.
func (run *taskRun) args() []string {
	fill := strings.NewReplacer("{id}", run.task.ID, "{title}", run.task.Title, "{section}", run.task.Section,
		"{token}", strconv.FormatInt(run.token, 10), "{attempt}", strconv.Itoa(run.task.Attempts))
	args := make([]string, 0, len(run.w.o.Command))
	for _, a := range run.w.o.Command[1:] {
		args = append(args, fill.Replace(a))
	}
	return args
}

// outcome is what the end of the command means for the task.
func (run *taskRun) outcome(res runner.Result, err error) task.StatusRequest {
	r := task.StatusRequest{Tasks: []string{run.task.ID}, Owner: run.lease.Owner(), Token: run.token, Lease: run.under, Slots: run.slots(), Verb: task.Complete}
	var start *runner.StartError
	switch {
	case res.ExitCode == 0:
		if run.out.String() != "" {
			r.Result = &task.Result{Summary: run.out.String()}
		}
		return r
	case errors.Is(err, errStopped) || errors.As(err, &start):
		r.Verb, r.Uncounted, r.Reason = task.Unclaim, true, err.Error()
		return r
	case errors.Is(err, errMaxHold):
		r.Reason = fmt.Sprintf("%v: %s", errMaxHold, run.w.o.MaxHold)
	case res.Lost != nil:
		r.Reason = "stopped: " + res.Lost.Error()
	default:
		r.Reason = fmt.Sprintf("exit code %d", res.ExitCode)
	}
	r.Verb = task.Unclaim
	if run.task.Attempts > run.w.o.Retries {
		r.Verb = task.Fail
	}
	return r
}

// finish writes how the task ended, which releases it.
func (run *taskRun) finish(ctx context.Context, res runner.Result, err error) error {
	do, err := run.write(ctx, run.outcome(res, err))
	run.mu.Lock()
	defer run.mu.Unlock()
	run.tried, run.do, run.err = true, do, err
	return err
}

// write carries out the outcome. A completion that the store refuses would be
// refused again after each repetition of the work: the task fails instead.
func (run *taskRun) write(ctx context.Context, do task.StatusRequest) (task.StatusRequest, error) {
	_, err := task.ChangeStatus(ctx, run.w.st, do)
	if do.Verb != task.Complete || !errors.Is(err, driver.ErrTooLarge) && !errors.Is(err, driver.ErrInvalid) {
		return do, err
	}
	do.Verb, do.Result, do.Reason = task.Fail, nil, fmt.Sprintf("the command succeeded, but the completion was refused: %v", err)
	_, err = task.ChangeStatus(ctx, run.w.st, do)
	return do, err
}

// settle makes sure that the end of the task is written. If finish could not, the
// token decides whether it still counts.
func (run *taskRun) settle(res runner.Result, err error) error {
	run.mu.Lock()
	tried, do, failed := run.tried, run.do, run.err
	run.mu.Unlock()
	if !tried {
		do, failed = run.write(context.WithoutCancel(run.w.Hard), run.outcome(res, err))
	}
	began := time.Now()
	for n := 1; store.Transient(failed) && time.Since(began) < run.w.o.TTL && run.w.Hard.Err() == nil; n++ {
		run.w.trouble(run.event(""), failed, n)
		do, failed = run.write(context.WithoutCancel(run.w.Hard), do)
	}
	run.report(do, res, failed)
	var start *runner.StartError
	switch {
	case errors.As(err, &start):
		return err
	case store.Transient(failed):
		return failed
	case errors.Is(err, runner.ErrGuardian):
		run.say("trouble", "%v", err)
	}
	return nil
}

func (run *taskRun) report(do task.StatusRequest, res runner.Result, err error) {
	e := run.event("")
	if res.ExitCode >= 0 {
		e.Exit = &res.ExitCode
	}
	sum, title := &run.w.sum, run.task.Title
	say := func(kind, format string, args ...any) { e.Event = kind; run.w.say(e, format, args...) }
	switch {
	case err != nil && run.ownEnd():
		say("left", "The command has set %s to %s itself", title, run.task.Status)
		sum.count(run.task.Status)
		return
	case err != nil:
		sum.Refused++
		say("refused", "Could not %s %s: %v", do.Verb, title, err)
		return
	case do.Verb == task.Complete:
		sum.Completed++
		say("completed", "Completed %s", title)
	case do.Verb == task.Fail:
		sum.Failed++
		say("failed", "Failed %s: %s", title, do.Reason)
	case do.Uncounted:
		sum.Stopped++
		say("unclaimed", "Unclaimed %s: %s", title, do.Reason)
	default:
		sum.Retried++
		say("retried", "%s goes back: %s (attempt %d of %d)", title, do.Reason, run.task.Attempts, run.w.o.Retries+1)
	}
	say("released", "Released task lock")
}

func (s *Summary) count(end task.Status) {
	switch end {
	case task.Completed:
		s.Completed++
	case task.Failed:
		s.Failed++
	}
}

// ownEnd reports whether the command itself has ended the task under this
// claim, and how.
func (run *taskRun) ownEnd() bool {
	now, err := task.Show(context.WithoutCancel(run.w.Hard), run.w.st, run.task.ID)
	if err != nil || now.LastToken != run.token {
		return false
	}
	run.task.Status = now.Status
	return true
}
