package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/holder"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func (o *acquireOptions) attachFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.attach, "attach", false, "hold until the end of input, and renew meanwhile")
	cmd.Flags().BoolVar(&o.apart, "independent", false, "with --attach: the owner goes on with other work while this waits")
	cmd.MarkFlagsMutuallyExclusive("attach", "keep-alive")
	cmd.MarkFlagsMutuallyExclusive("attach", "ends-with")
}

// actor is who works while an attached holder holds, and cannot while it waits:
// whoever has the other end of the pipes, which is the owner, with all its
// holders. Empty: each holder by itself.
func (o *acquireOptions) actor(owner string) (string, error) {
	switch {
	case o.apart && !o.attach:
		return "", usagef("--independent goes with --attach")
	case o.apart || !o.attach:
		return "", nil
	}
	return owner, nil
}

// attached: a dry run holds nothing.
func (o *acquireOptions) attached(a *App) bool { return o.attach && !a.DryRun }

// hold is acquire --attach.
func (o *acquireOptions) hold(ctx context.Context, a *App, st *store.Store, req lease.AcquireRequest) error {
	if req.ID != "" {
		req.Then = lease.Once(req.Owner, req.ID)
	}
	return a.attach(ctx, req.Wait, func(ctx context.Context, waiting func(lease.HeldError)) (*taken, error) {
		req.Waiting = waiting
		lease, err := lease.Hold(ctx, st, req)
		if err != nil {
			return nil, err
		}
		g := lease.Grant()
		return &taken{lease, g, func(p *printer) { p.grant(g, false) }}, nil
	})
}

// holdTasks is tasks claim --attach.
func (o *acquireOptions) holdTasks(ctx context.Context, a *App, st *store.Store, refs []string) error {
	req, err := o.claimRequest(a)
	if err != nil {
		return err
	}
	a.retry = o.again(a, "tasks", append([]string{"claim"}, refs...), req)
	return a.attach(ctx, req.Wait, func(ctx context.Context, waiting func(lease.HeldError)) (*taken, error) {
		req.Waiting = func(h lease.HeldError) {
			a.learnTitles(ctx, st, refs)
			waiting(h)
		}
		tasks, lease, err := task.HoldTasks(ctx, st, task.ClaimRequest{Tasks: refs, Acquire: req})
		if err != nil {
			return nil, err
		}
		out := task.ClaimResult{Tasks: tasks, Grant: lease.Grant()}
		return &taken{lease, newClaimData(out), a.claimedText(out)}, nil
	})
}

// holdNext is next --claim --attach.
func (o *nextOptions) holdNext(ctx context.Context, a *App, st *store.Store, r task.NextRequest) error {
	r.WithSection = true
	return a.attach(ctx, 0, func(ctx context.Context, waiting func(lease.HeldError)) (*taken, error) {
		r.Waiting = func() {
			o.tellWait(a, r.Wait)
			waiting(lease.HeldError{})
		}
		t, lease, err := task.HoldNext(ctx, st, r)
		if err != nil {
			return nil, err
		}
		g := lease.Grant()
		return &taken{lease, nextData{Task: newTaskData(t), Token: tokenOf(g, t.ID), Grant: &g}, func(p *printer) {
			p.claimed(a.did("Claimed", ""), t, g, false)
		}}, nil
	})
}

// taken is what an attached command has taken, and how it says so.
type taken struct {
	lease *lease.Lease
	data  any
	text  func(*printer)
}

// attach holds keys for whoever has the other end of our pipes, which is how
// clients in other languages hold them. It says with one line each that they
// were acquired, lost or released. The end of the input is the release, so that
// the death of the client is one too; an empty line asks how long the lease may
// be trusted, so that a client can keep a deadline of its own: from the start of
// this command on, whatever stops this process and when.
func (a *App) attach(ctx context.Context, wait time.Duration, take takeFunc) error {
	a.retry = append(a.retry, "--attach")
	signal.Ignore(syscall.SIGPIPE) // whoever reads our lines may die first: then the keys are given back, not left behind
	ctx, signals := newListener(ctx)
	defer signals.stop()
	signals.listen()
	in := listenTo(a.Stdin)
	held, err := a.take(ctx, in, wait, take)
	if err != nil {
		return err
	}
	if err = a.hold(ctx, in, held); errors.Is(err, lease.ErrLost) {
		a.says = "lost" // and nothing is asked of the store any more: the client must hear of it now
		return err
	}
	a.says = ""
	gone := held.Release(ctx)
	switch {
	case errors.Is(gone, lease.ErrLost):
		a.says = "lost"
		return gone
	case gone != nil:
		return gone
	case err != nil:
		return err // nobody listens
	}
	out := gaveBack(held.Grant())
	a.says = "released"
	return a.answer(newReleaseData(out), func(p *printer) { p.released("Released", "", out, false) })
}

// takeFunc acquires, and tells about the wait.
type takeFunc func(ctx context.Context, waiting func(lease.HeldError)) (*taken, error)

// take acquires and says so. A client that is gone before that leaves the queue.
func (a *App) take(ctx context.Context, in *input, wait time.Duration, take takeFunc) (held *lease.Lease, err error) {
	client, leave := context.WithCancelCause(ctx)
	var got *taken
	err = new(holder.Holder).Take(client, func(ctx context.Context) (_ *lease.Lease, err error) {
		var once sync.Once
		w := a.waiting(wait)
		silence := a.answerWhileWaiting(in)
		got, err = take(ctx, func(h lease.HeldError) {
			once.Do(func() { // input that was at its end from the start is no reason not to try
				context.AfterFunc(in.ended, func() { leave(&signalError{os.Interrupt}) })
			})
			if wait > 0 {
				w.update(h)
			}
		})
		silence()
		w.end(err == nil, err == nil && len(got.lease.Grant().TookOver) > 0)
		if err != nil {
			return nil, err
		}
		return got.lease, nil
	}, func(l *lease.Lease) error {
		held, a.says = l, "acquired"
		return a.answer(a.acquired(got), got.text)
	})
	return held, interrupted(client, err)
}

// answerWhileWaiting answers empty lines until it is told to end: a client that
// waits for keys can tell a long queue from a process that was stopped.
func (a *App) answerWhileWaiting(in *input) (end func()) {
	b := *a // what is said later is not its concern
	b.says = "waiting"
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case <-in.asked:
				_ = b.answer(struct{}{}, func(*printer) {}) // people see the wait on stderr
			}
		}
	}()
	return func() { close(over); <-done }
}

// heldData answers an empty line.
type heldData struct {
	LeftSeconds float64 `json:"leftSeconds"` // the lease may be trusted so long without another heartbeat
}

// acquired is the data of a grant with leftSeconds, counted from the start of
// this command. The clock is read first: a stop between the two makes it less.
func (a *App) acquired(got *taken) any {
	ran := time.Since(a.started)
	return withLeft{got.data, (ran + got.lease.Left()).Seconds()}
}

// withLeft is an object of JSON with one field more.
type withLeft struct {
	data any
	left float64
}

// MarshalJSON appends leftSeconds to the object.
func (w withLeft) MarshalJSON() ([]byte, error) {
	object, err := json.Marshal(w.data)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(object[:len(object)-1], `,"leftSeconds":%g}`, w.left), nil
}

// hold answers until the lease is lost or no longer wanted.
func (a *App) hold(ctx context.Context, in *input, lease *lease.Lease) error {
	a.says = "held"
	for {
		select {
		case <-lease.Context().Done():
			return lost(lease)
		case <-ctx.Done(): // a signal
			return lost(lease)
		case <-in.ended.Done():
			return lost(lease)
		case <-in.asked:
			if err := lost(lease); err != nil {
				return err
			}
			left := max(0, lease.Left())
			if err := a.answer(heldData{left.Seconds()}, func(p *printer) { p.line("Held, for %s at least.", rough(left)) }); err != nil {
				return err
			}
		}
	}
}

// lost is nil unless the lease is.
func lost(l *lease.Lease) error {
	if err := l.Err(); errors.Is(err, lease.ErrLost) {
		return err
	}
	return nil
}

// gaveBack is what the end of an attached holder gave back: nothing that a
// parent had before.
func gaveBack(g lease.Grant) (out lease.ReleaseResult) {
	for _, k := range g.Keys {
		if !k.Reentrant {
			out.Released = append(out.Released, lease.Released{Key: k.Key, Owner: g.Owner, Token: k.Token})
		}
	}
	return out
}

// input is the client's end of the pipe. Reading from it cannot be cancelled:
// its goroutine ends with the pipe or with the process.
type input struct {
	ended context.Context
	asked chan struct{}
}

func listenTo(r io.Reader) *input {
	ended, end := context.WithCancel(context.Background())
	in := &input{ended: ended, asked: make(chan struct{}, 1)}
	go func() {
		defer end()
		buf := bufio.NewReader(r)
		for {
			line, err := buf.ReadSlice('\n')
			if bytes.HasSuffix(line, []byte("\n")) {
				select {
				case in.asked <- struct{}{}:
				default: // one answer is enough for many questions
				}
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
		}
	}()
	return in
}
