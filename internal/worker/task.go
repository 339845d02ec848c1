package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	input *lateReader
	out   *tail
	limit *time.Timer
	abort context.CancelCauseFunc

	mu    sync.Mutex
	tried bool // to write down how it ended
	do    task.StatusRequest
	err   error
}

// next takes one task and sees it through.
func (w *worker) next() error {
	ctx, abort := context.WithCancelCause(w.Hard)
	defer abort(nil)
	j := &taskRun{w: w, abort: abort}
	o := runner.Options{
		Acquire: lease.AcquireRequest{Owner: w.owner, TTL: w.o.TTL, Session: sessionPrefix + w.o.Name},
		Claim:   j.claim,
		Command: w.o.Command, Dir: w.o.Dir, Env: w.o.Env, Stdout: w.o.Stdout, Stderr: w.o.Stderr,
		Guardian: w.o.Guardian,
	}
	if !w.o.NoStdin {
		j.input = &lateReader{ready: make(chan struct{})}
		o.Stdin = j.input
	}
	if w.o.KeepOutput {
		j.out = &tail{to: w.o.Stdout}
		o.Stdout = j.out
	}
	res, err := runner.Run(ctx, w.st, o)
	if j.lease == nil {
		return err
	}
	if j.limit != nil {
		j.limit.Stop()
	}
	w.runs++
	return j.end(res, err)
}

// claim takes the next task, and its section before it.
func (j *taskRun) claim(ctx context.Context, r lease.AcquireRequest) (runner.Claim, error) {
	c, err := j.take(ctx, r)
	if err != nil {
		j.input.open(nil) // somebody may be reading
	}
	return c, err
}

func (j *taskRun) take(ctx context.Context, r lease.AcquireRequest) (runner.Claim, error) {
	w := j.w
	for tries := 0; ; tries++ {
		if w.Soft.Err() != nil {
			return runner.Claim{}, errStopped
		}
		if w.section != nil && w.section.Err() != nil {
			w.leaveSection("Lost the section lock on %s", w.in)
		}
		req := task.NextRequest{Section: w.o.Section, Label: w.o.Label, Acquire: r}
		again := w.section != nil && !w.fresh
		if w.section != nil {
			req.Section, req.Acquire.Owner = w.in, w.section.Owner()
		}
		if again {
			w.say(LogEntry{Event: "checking", Section: w.in}, "Checking for next task in %s...", w.in)
		}
		t, held, err := task.HoldNext(ctx, w.st, req)
		var outside *task.SectionError
		if errors.As(err, &outside) {
			err = w.enter(ctx, outside.Section)
			var refused *lease.HeldError
			if errors.As(err, &refused) && tries > 0 {
				return runner.Claim{}, &task.NothingReadyError{} // others queue for it
			}
			if err == nil || errors.As(err, &refused) {
				continue
			}
		}
		if err != nil {
			return runner.Claim{}, err
		}
		w.fresh, w.idling, w.wants = false, false, nil
		j.took(t, held, again)
		return runner.Claim{Lease: held, Args: j.args(), Env: j.env(), Finish: j.finish}, nil
	}
}

// took notes what was claimed.
func (j *taskRun) took(t task.Task, held *lease.Lease, again bool) {
	j.task, j.lease = t, held
	for _, k := range held.Grant().Keys {
		if k.Key == t.ID {
			j.token = k.Token
		}
	}
	switch {
	case again:
		j.say("starting", "Found %s, acquiring lock...", t.Title)
	case t.Section != "":
		j.say("starting", "Starting %q in %s section", t.Title, t.Section)
	default:
		j.say("starting", "Starting %q", t.Title)
	}
	for _, o := range held.Grant().TookOver {
		j.w.tookOver(j.event(""), o)
	}
	j.say("acquired", "Acquired lock on %s (%s, token %d)", t.Title, t.ID, j.token)
	if t.Attempts > 1 {
		j.say("working", "Restarting %s (attempt %d)...", t.Title, t.Attempts)
	} else {
		j.say("working", "Working on %s...", t.Title)
	}
	if d := j.w.o.MaxHold; d > 0 {
		j.limit = time.AfterFunc(d, func() { j.abort(errMaxHold) })
	}
	j.input.open(j.document())
}

func (j *taskRun) event(kind string) LogEntry {
	return LogEntry{Event: kind, Task: j.task.ID, Title: j.task.Title, Section: j.task.Section, Token: j.token, Attempt: j.task.Attempts}
}

func (j *taskRun) say(kind, format string, args ...any) { j.w.say(j.event(kind), format, args...) }

// document is the task for the command's standard input.
func (j *taskRun) document() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(struct { // what came from JSON goes back into it
		task.Task
		Token int64 `json:"token"`
	}{j.task, j.token})
	return b.Bytes()
}

func (j *taskRun) env() []string {
	return []string{
		"TASKLOCK_KEY=" + j.task.ID,
		"TASKLOCK_TOKEN=" + strconv.FormatInt(j.token, 10),
		"TASKLOCK_TASK_ID=" + j.task.ID,
		"TASKLOCK_TASK_TITLE=" + j.task.Title,
		"TASKLOCK_TASK_SECTION=" + j.task.Section,
		"TASKLOCK_ATTEMPT=" + strconv.Itoa(j.task.Attempts),
	}
}

// args fills in the placeholders.
func (j *taskRun) args() []string {
	fill := strings.NewReplacer("{id}", j.task.ID, "{title}", j.task.Title, "{section}", j.task.Section,
		"{token}", strconv.FormatInt(j.token, 10), "{attempt}", strconv.Itoa(j.task.Attempts))
	args := make([]string, 0, len(j.w.o.Command))
	for _, a := range j.w.o.Command[1:] {
		args = append(args, fill.Replace(a))
	}
	return args
}

// verdict is what the end of the command means for the task.
func (j *taskRun) verdict(res runner.Result, err error) task.StatusRequest {
	r := task.StatusRequest{Tasks: []string{j.task.ID}, Owner: j.lease.Owner(), Token: j.token, Verb: task.Complete}
	var start *runner.StartError
	switch {
	case res.ExitCode == 0:
		if j.out.String() != "" {
			r.Result = &task.Result{Summary: j.out.String()}
		}
		return r
	case errors.Is(err, errStopped) || errors.As(err, &start):
		r.Verb, r.Uncounted, r.Reason = task.Unclaim, true, err.Error()
		return r
	case errors.Is(err, errMaxHold):
		r.Reason = fmt.Sprintf("%v: %s", errMaxHold, j.w.o.MaxHold)
	case res.Lost != nil:
		r.Reason = "stopped: " + res.Lost.Error()
	default:
		r.Reason = fmt.Sprintf("exit code %d", res.ExitCode)
	}
	r.Verb = task.Unclaim
	if j.task.Attempts > j.w.o.Retries {
		r.Verb = task.Fail
	}
	return r
}

// finish writes down how the task ended, which releases it.
func (j *taskRun) finish(ctx context.Context, res runner.Result, err error) error {
	do, err := j.write(ctx, j.verdict(res, err))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tried, j.do, j.err = true, do, err
	return err
}

// write carries out the verdict. A completion that the store refuses would be
// refused again after each repetition of the work: the task fails instead.
func (j *taskRun) write(ctx context.Context, do task.StatusRequest) (task.StatusRequest, error) {
	_, err := task.ChangeStatus(ctx, j.w.st, do)
	if do.Verb != task.Complete || !errors.Is(err, driver.ErrTooLarge) && !errors.Is(err, driver.ErrInvalid) {
		return do, err
	}
	do.Verb, do.Result, do.Reason = task.Fail, nil, fmt.Sprintf("the command succeeded, but the completion was refused: %v", err)
	_, err = task.ChangeStatus(ctx, j.w.st, do)
	return do, err
}

// end makes sure that what came of the task is written down. Where finish could
// not, the token decides whether it still counts.
func (j *taskRun) end(res runner.Result, err error) error {
	j.mu.Lock()
	tried, do, failed := j.tried, j.do, j.err
	j.mu.Unlock()
	if !tried {
		do, failed = j.write(context.WithoutCancel(j.w.Hard), j.verdict(res, err))
	}
	began := time.Now()
	for n := 1; store.Transient(failed) && time.Since(began) < j.w.o.TTL && j.w.Hard.Err() == nil; n++ {
		j.w.trouble(j.event(""), failed, n)
		do, failed = j.write(context.WithoutCancel(j.w.Hard), do)
	}
	j.report(do, res, failed)
	var start *runner.StartError
	switch {
	case errors.As(err, &start):
		return err
	case store.Transient(failed):
		return failed
	case errors.Is(err, runner.ErrGuardian):
		j.say("trouble", "%v", err)
	}
	return nil
}

func (j *taskRun) report(do task.StatusRequest, res runner.Result, err error) {
	e := j.event("")
	if res.ExitCode >= 0 {
		e.Exit = &res.ExitCode
	}
	sum, title := &j.w.sum, j.task.Title
	say := func(kind, format string, args ...any) { e.Event = kind; j.w.say(e, format, args...) }
	switch {
	case err != nil && j.ownEnd():
		say("left", "The command has set %s to %s itself", title, j.task.Status)
		sum.count(j.task.Status)
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
		say("retried", "%s goes back: %s (attempt %d of %d)", title, do.Reason, j.task.Attempts, j.w.o.Retries+1)
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
func (j *taskRun) ownEnd() bool {
	now, err := task.Show(context.WithoutCancel(j.w.Hard), j.w.st, j.task.ID)
	if err != nil || now.LastToken != j.token {
		return false
	}
	j.task.Status = now.Status
	return true
}

// lateReader is an input whose text is known only after somebody has begun to
// read it.
type lateReader struct {
	ready chan struct{}
	text  *bytes.Reader
}

func (r *lateReader) open(text []byte) {
	if r != nil {
		r.text = bytes.NewReader(text)
		close(r.ready)
	}
}

func (r *lateReader) Read(p []byte) (int, error) {
	<-r.ready
	return r.text.Read(p)
}

// tail passes output on and keeps the end of it.
type tail struct {
	to   io.Writer
	last []byte
}

const maxSummary = 1024

func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	if over := len(t.last) - maxSummary; over > 0 {
		t.last = t.last[over:]
	}
	if t.to == nil {
		return len(p), nil
	}
	return t.to.Write(p)
}

func (t *tail) String() string {
	if t == nil {
		return ""
	}
	s := strings.ToValidUTF8(strings.ReplaceAll(string(t.last), "\x00", ""), "")
	if len(t.last) == maxSummary {
		if _, rest, ok := strings.Cut(s, "\n"); ok && strings.TrimSpace(rest) != "" {
			s = rest
		}
	}
	return strings.TrimSpace(s)
}
