package hold

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

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/holder"
	"github.com/tasklock/tasklock/internal/lease"
)

// AttachFlag adds --attach.
func (o *KeepOptions) AttachFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.attach, "attach", false, "hold and renew until the end of input")
	cmd.Flags().BoolVar(&o.apart, "independent", false, "with --attach: the owner works on while this waits")
	cmd.MarkFlagsMutuallyExclusive("attach", "keep-alive")
	cmd.MarkFlagsMutuallyExclusive("attach", "ends-with")
}

// actor is who works while an attached holder holds, and does nothing while it
// waits: the client at the other end of the pipes, which is the owner, with all
// its holders. Empty: each holder alone.
func (o *KeepOptions) actor(owner string) (string, error) {
	switch {
	case o.apart && !o.attach:
		return "", session.Usagef("--independent goes with --attach")
	case o.apart || !o.attach:
		return "", nil
	}
	return owner, nil
}

// Attached: a dry run holds nothing.
func (o *KeepOptions) Attached(s *session.Session) bool { return o.attach && !s.DryRun }

// Taken is what an attached command has acquired, and how it reports it.
type Taken struct {
	Lease *lease.Lease
	Data  any
	Text  func(*term.Printer)
}

// Attach holds keys for the client at the other end of our pipes; clients in other
// languages use it. It prints one line each when the keys are acquired, lost or
// released. The end of the input is the release, so the death of the client is one
// too. An empty line asks how long the lease may be trusted, so that a client can
// keep its own deadline: from the start of this command on, whatever stops this
// process.
//
// who names the blocking owner in one sentence.
func Attach(ctx context.Context, s *session.Session, wait time.Duration, who func(*lease.HeldError) string, take TakeFunc) error {
	signal.Ignore(syscall.SIGPIPE) // the reader of our lines may die first: then release the keys
	ctx, stop := session.Listen(ctx)
	defer stop()
	in := listenTo(s.Stdin)
	w := NewWait(s, wait)
	w.Who = who
	held, err := takeAndSay(ctx, s, in, w, take)
	if err != nil {
		return w.Failed(err)
	}
	if err = hold(ctx, s, in, held); errors.Is(err, lease.ErrLost) {
		return &session.Attempt{Err: err, Event: "lost"} // do not ask the store: the client must hear of it now
	}
	gone := held.Release(ctx)
	switch {
	case errors.Is(gone, lease.ErrLost):
		return &session.Attempt{Err: gone, Event: "lost"}
	case gone != nil:
		return gone
	case err != nil:
		return err // nobody listens
	}
	out := gaveBack(held.Grant())
	return s.Event("released", view.NewReleaseData(out), func(p *term.Printer) { view.PrintReleased(p, "Released", "", out) })
}

// TakeFunc acquires, and reports the wait.
type TakeFunc func(ctx context.Context, waiting func(lease.HeldError)) (*Taken, error)

// takeAndSay acquires and says so. If the client is gone before, it leaves the queue.
func takeAndSay(ctx context.Context, s *session.Session, in *input, w *Wait, take TakeFunc) (held *lease.Lease, err error) {
	client, leave := context.WithCancelCause(ctx)
	var got *Taken
	err = new(holder.Holder).Take(client, func(ctx context.Context) (_ *lease.Lease, err error) {
		var once sync.Once
		silence := answerWhileWaiting(s, in)
		got, err = take(ctx, func(h lease.HeldError) {
			once.Do(func() { // try even if the input was at its end from the start
				context.AfterFunc(in.ended, func() { leave(&session.SignalError{Signal: os.Interrupt}) })
			})
			if w.wait > 0 {
				w.Update(h)
			}
		})
		silence()
		w.End(err == nil, err == nil && len(got.Lease.Grant().TookOver) > 0)
		if err != nil {
			return nil, err
		}
		return got.Lease, nil
	}, func(l *lease.Lease) error {
		held = l
		return s.Event("acquired", acquired(s, got), got.Text)
	})
	return held, session.Interrupted(client, err)
}

// answerWhileWaiting answers empty lines until end is called: a client that waits
// for keys can distinguish a long queue from a stopped process.
func answerWhileWaiting(s *session.Session, in *input) (end func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case <-in.asked:
				_ = s.Event("waiting", struct{}{}, func(*term.Printer) {}) // people see the wait on stderr
			}
		}
	}()
	return func() { close(over); <-done }
}

// heldData answers an empty line.
type heldData struct {
	LeftSeconds float64 `json:"leftSeconds"` // how long the lease may be trusted without another heartbeat
}

// acquired is the data of a grant with leftSeconds, counted from the start of this
// command. It reads the clock first: a stop between the two makes it less.
func acquired(s *session.Session, got *Taken) any {
	ran := s.Elapsed()
	return withLeft{got.Data, (ran + got.Lease.Left()).Seconds()}
}

// withLeft is a JSON object with one more field.
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
func hold(ctx context.Context, s *session.Session, in *input, lease *lease.Lease) error {
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
			if err := s.Event("held", heldData{left.Seconds()}, func(p *term.Printer) { p.Line("Held, for %s at least.", term.Rough(left)) }); err != nil {
				return err
			}
		}
	}
}

// lost is nil unless the lease is lost.
func lost(l *lease.Lease) error {
	if err := l.Err(); errors.Is(err, lease.ErrLost) {
		return err
	}
	return nil
}

// gaveBack is what the end of an attached holder released: nothing that a parent
// had before.
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
