package leasecmd

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/hold"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

type waitOptions struct{ wait session.DurationFlag }

func NewWait(s *session.Session) *cobra.Command {
	o := &waitOptions{}
	cmd := &cobra.Command{
		Use:   "wait KEY...",
		Short: "Wait until keys are free, without taking them",
		Long: `Wait until all keys are free, without taking them or joining a queue: another worker
may hold a key again when the command ends. To get a key, use acquire. A pool is
free when one of its slots is.`,
		Example:           `  tasklock wait section:Backend --wait 2h && make release`,
		Args:              session.AtLeastOne("key"),
		ValidArgsFunction: s.HeldKeys(),
		RunE:              s.RunKeys(func(ctx context.Context, keys []string) error { return o.run(ctx, s, keys) }),
	}
	o.wait = session.DurationFlag{Max: lease.MaxTTL}
	cmd.Flags().Var(&o.wait, "wait", "how long to wait (default 30m)")
	return cmd
}

type waitData struct {
	Keys          []string `json:"keys"`
	WaitedSeconds float64  `json:"waitedSeconds"`
}

func (o *waitOptions) run(ctx context.Context, s *session.Session, keys []string) error {
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	wait := cfg.WaitTimeout()
	if o.wait.Given {
		wait = o.wait.Value
	}
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	retry := append(append([]string{"wait"}, keys...), "--wait", term.Exact(max(wait, time.Minute)))
	wait = session.Left(ctx, wait)
	ctx, stop := session.Listen(ctx)
	defer stop()
	w := hold.NewWait(s, wait)
	start := time.Now()
	err = waitFree(ctx, st, keys, wait, w.Update)
	w.End(err == nil, false)
	if err != nil {
		return session.Tried(w.Failed(session.Interrupted(ctx, err)), retry)
	}
	return s.Answer(waitData{Keys: keys, WaitedSeconds: time.Since(start).Seconds()}, func(p *term.Printer) {
		p.Line("%s free: %s.", term.Green.Of("All"), strings.Join(keys, ", "))
	})
}

// waitFree returns when a look at each key has found it free, or with a
// *lease.HeldError when the time is over.
func waitFree(ctx context.Context, st *store.Store, keys []string, wait time.Duration, tell func(lease.HeldError)) error {
	start := time.Now()
	for {
		held, err := firstHeld(ctx, st, keys)
		if err != nil || held == nil {
			return err
		}
		held.Waited = time.Since(start)
		left := wait - held.Waited
		if left <= 0 {
			if wait == 0 {
				held.Waited = 0
			}
			return held
		}
		tell(*held)
		if err := pause(ctx, st, held, left); err != nil {
			return err
		}
	}
}

func firstHeld(ctx context.Context, st *store.Store, keys []string) (*lease.HeldError, error) {
	for _, key := range keys {
		c, err := lease.Check(ctx, st, lease.CheckRequest{Key: key})
		if err != nil {
			return nil, err
		}
		switch l := c.Lock; {
		case c.Locked && c.Pool != nil:
			return &lease.HeldError{Info: lease.Info{Key: c.Key}, Asked: c.Key, Pool: c.Pool, Ahead: c.Pool.Waiters}, nil
		case c.Locked:
			return &lease.HeldError{Info: *l, Ahead: l.Waiters}, nil
		}
	}
	return nil, nil
}

// pause waits until the lock changes. Expiry and death send no message, so it
// looks again after at most two seconds.
func pause(ctx context.Context, st *store.Store, h *lease.HeldError, atMost time.Duration) error {
	wctx, cancel := context.WithTimeout(ctx, min(atMost, 2*time.Second))
	defer cancel()
	guards := []driver.Guard{h.Guard()}
	if h.Pool != nil { // any of its holders may end next
		guards = nil
		for _, holder := range h.Pool.Holders {
			guards = append(guards, holder.Guard())
		}
	}
	err := st.Wait(wctx, guards)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		<-wctx.Done() // the store cannot wait now: look again when the time is over
	}
	return nil
}
