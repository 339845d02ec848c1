package leasecmd

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
)

type checkOptions struct {
	session.FenceOptions
	mine bool
}

func NewCheck(s *session.Session) *cobra.Command {
	o := &checkOptions{}
	cmd := &cobra.Command{
		Use:   "check KEY",
		Short: "Check whether a key is locked (exit 0) or free (exit 1)",
		Long: `Check whether a key is locked.

With --token, or under run, check whether that token is in force. With --mine, check
whether the caller, a parent of it or their MCP server holds the key.

A pool is locked when none of its slots is free. With --token or --mine one slot
must be held so.

Exit codes:
  0  locked; with --token or --mine: in force
  1  free, and never for another reason
  7  with --token or --mine: not in force`,
		Example: `  tasklock check fix-bug || echo free
  tasklock check fix-bug --token "$TOKEN" && git push`,
		Args:              session.One("key"),
		ValidArgsFunction: s.HeldKeys(),
	}
	cmd.RunE = s.RunKeys(func(ctx context.Context, keys []string) error {
		if !o.mine {
			if err := o.Fill(s, cmd, keys); err != nil {
				return err
			}
		}
		return o.run(ctx, s, keys[0])
	})
	o.Flags(cmd)
	cmd.Flags().BoolVar(&o.mine, "mine", false, "check whether the caller or a parent of it holds the key")
	cmd.MarkFlagsMutuallyExclusive("mine", "token")
	cmd.MarkFlagsMutuallyExclusive("mine", "lease")
	return cmd
}

func (o *checkOptions) run(ctx context.Context, s *session.Session, key string) error {
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	r := lease.CheckRequest{Key: key, Token: o.Token, Latest: o.Latest}
	switch {
	case o.mine:
		r.HeldBy = s.Identity().Owner
	case o.Lease != "":
		r.Lease, r.Owner = o.Lease, s.Identity().Owner
	}
	out, err := lease.Check(ctx, st, r)
	if err != nil {
		return err
	}
	err = s.Answer(out, func(p *term.Printer) {
		switch {
		case out.Pool != nil:
			printPool(p, out)
			return
		case out.Locked && out.Lock.Key != out.Key:
			as := "as part of " // another path
			if kind, _ := lease.KindOf(out.Key); kind == lease.Task {
				as = "as " // a name that was locked before the task had it
			}
			p.Line("%s is locked %s%s by %s, token %d, %s.", out.Key, as, out.Lock.Key, out.Lock.Owner, out.Lock.Token, view.Ends(p, out.Lock.ExpiresAt))
		case out.Locked:
			p.Line("%s is locked by %s, token %d, %s.", out.Key, out.Lock.Owner, out.Lock.Token, view.Ends(p, out.Lock.ExpiresAt))
		default:
			p.Line("%s is free.", out.Key)
		}
		if out.Locked {
			p.Line("%s.", view.Holding(p, *out.Lock))
		}
	})
	if err == nil && !out.Locked && !o.mine && o.Token == 0 && o.Latest == 0 && o.Lease == "" {
		return session.ExitError(problem.Error)
	}
	return err
}

// printPool says how full a pool is, who holds its slots and how many wait.
func printPool(p *term.Printer, out lease.CheckResult) {
	state := "has a free slot"
	switch pool := out.Pool; {
	case out.Lock != nil:
		what := out.Lock.Key
		if _, slot, _ := lease.SlotOf(what); slot == 0 {
			what = "All of " + out.Key
		}
		p.Line("%s is held by %s, token %d, %s.", what, out.Lock.Owner, out.Lock.Token, view.Ends(p, out.Lock.ExpiresAt))
		return
	case pool.Size == 0 && pool.Used == 0:
		p.Line("%s is free: no such pool yet.", out.Key)
		return
	case out.Locked:
		state = "is full"
	}
	p.Line("%s %s: %s, %s.", out.Key, state, view.Used(out.Pool), waiting(out.Pool.Waiters))
	view.PrintHolders(p, out.Pool.Holders)
}

func waiting(n int) string {
	switch n {
	case 0:
		return "nobody waits"
	case 1:
		return "1 waits"
	}
	return strconv.Itoa(n) + " wait"
}
