package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
)

func NewShow(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "show KEY",
		Short:             "Show one key: its lock, who works under it and who waits",
		Args:              session.One("key"),
		ValidArgsFunction: s.HeldKeys(),
		RunE:              s.RunKeys(func(ctx context.Context, keys []string) error { return show(ctx, s, keys[0]) }),
	}
	session.OfflineFlag(cmd)
	return cmd
}

func show(ctx context.Context, s *session.Session, key string) error {
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := lease.Show(ctx, st, key)
	if kind, name := lease.KindOf(key); kind == lease.Pool && errors.Is(err, lease.ErrNotFound) {
		return noPool(s, err, name)
	}
	if errors.Is(err, lease.ErrNotFound) {
		err = fmt.Errorf("%s: no lock and no waiters: %w", key, err)
	}
	return session.Reply(s, printLock)(out, err)
}

func printLock(p *term.Printer, s lease.ShowResult) {
	if s.Pool != nil && s.Lock == nil {
		printPool(p, s.Pool, s.Waiters)
		return
	}
	rows := term.Fields{{"key", s.Key}}
	if l := s.Lock; l == nil {
		rows.Add("state", "free")
	} else {
		rows.Add("owner", l.Owner)
		rows.Add("state", string(l.State))
		rows.Add("token", strconv.FormatInt(l.Token, 10))
		rows.Add("lease", l.LeaseID)
		rows.Add("acquired", p.When(l.AcquiredAt))
		rows.Add("last seen", p.When(l.HeartbeatAt))
		rows.Add("expires", view.Expiry(p, l.ExpiresAt))
		rows.Add("host", l.Host)
		if l.PID != 0 {
			rows.Add("pid", strconv.Itoa(l.PID)+", "+l.Life)
		}
		rows.Add("worktree", l.Worktree)
		rows.Add("session", l.Session)
		rows.Add("label", l.Label)
		rows.Add("reason", l.Reason)
	}
	for i, u := range s.Users {
		rows.Add("used by "+strconv.Itoa(i+1), waiterText(p, lease.Waiter(u)))
	}
	for i, w := range s.Waiters {
		rows.Add("waiter "+strconv.Itoa(i+1), waiterText(p, w))
	}
	p.Fields(rows)
}

// waiterText is one who waits, or who works under a lock.
func waiterText(p *term.Printer, w lease.Waiter) string {
	state := ""
	if w.State != lease.Held {
		state = ", " + string(w.State)
	}
	return fmt.Sprintf("%s, since %s, last seen %s%s", w.Owner, p.When(w.Since), p.Relative(w.LastSeen), state)
}
