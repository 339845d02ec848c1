package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

type waitOptions struct{ wait durationFlag }

func newWaitCmd(a *App) *cobra.Command {
	o := &waitOptions{}
	cmd := &cobra.Command{
		Use:   "wait KEY...",
		Short: "Wait until keys are free, without taking them",
		Long: `Wait until all keys are free. Nothing is taken and no queue is joined: by the time
the command ends another worker may hold a key again. To get it, use acquire.`,
		Example:           `  tasklock wait section:Backend --wait 2h && make release`,
		Args:              someKeys,
		ValidArgsFunction: a.heldKeys,
		RunE:              a.forKeys(func(ctx context.Context, keys []string) error { return o.run(ctx, a, keys) }),
	}
	o.wait = durationFlag{max: lease.MaxTTL}
	cmd.Flags().Var(&o.wait, "wait", "how long to wait")
	return cmd
}

type waitData struct {
	Keys          []string `json:"keys"`
	WaitedSeconds float64  `json:"waitedSeconds"`
}

func (o *waitOptions) run(ctx context.Context, a *App, keys []string) (err error) {
	for i, k := range keys {
		if keys[i], err = lease.CheckKey(k); err != nil {
			return err
		}
	}
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	wait := cfg.WaitTimeout()
	if o.wait.given {
		wait = o.wait.value
	}
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	a.retry = append(append([]string{"wait"}, keys...), "--wait", exact(max(wait, time.Minute)))
	wait = a.left(wait)
	ctx, signals := newListener(ctx)
	defer signals.stop()
	signals.listen()
	w := a.waiting(wait)
	start := time.Now()
	err = waitFree(ctx, st, keys, wait, w.update)
	w.end(err == nil, false)
	if err != nil {
		return interrupted(ctx, err)
	}
	return a.answer(waitData{Keys: keys, WaitedSeconds: time.Since(start).Seconds()}, func(p *printer) {
		p.line("%s free: %s.", green.of("All"), strings.Join(keys, ", "))
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
		if l := c.Lock; c.Locked {
			return &lease.HeldError{
				Key: l.Key, Owner: l.Owner, Lease: l.LeaseID, Token: l.Token, Since: l.AcquiredAt, Until: l.ExpiresAt.Time,
				LastSeen: l.HeartbeatAt, Host: l.Host, PID: l.PID, Reason: l.Reason, Worktree: l.Worktree, Ahead: l.Waiters,
			}, nil
		}
	}
	return nil, nil
}

// pause waits until the lock changes. Expiry and death send no message, so it
// looks again after at most two seconds.
func pause(ctx context.Context, st *store.Store, h *lease.HeldError, atMost time.Duration) error {
	wctx, cancel := context.WithTimeout(ctx, min(atMost, 2*time.Second))
	defer cancel()
	err := st.Wait(wctx, []driver.Guard{lease.Info{Key: h.Key, Token: h.Token}.Guard()})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		<-wctx.Done() // the store cannot wait now: look again when the time is over
	}
	return nil
}
