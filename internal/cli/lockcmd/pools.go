package lockcmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
)

func NewPools(s *session.Session) *cobra.Command {
	return session.Group("pools", "Set how many work at a time, and see who does",
		newPoolsSetCmd(s), newPoolsListCmd(s), newPoolsShowCmd(s), newPoolsRemoveCmd(s))
}

// poolNames completes names of pools, up to so many.
func poolNames(s *session.Session, most int) cobra.CompletionFunc {
	return s.Completion(most, func(ctx context.Context, st *store.Store) ([]string, error) {
		out, err := lease.Pools(ctx, st)
		return term.Each(out.Pools, func(p lease.PoolInfo) string { return term.Clean(p.Pool) }), err
	})
}

func newPoolsSetCmd(s *session.Session) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "set POOL SLOTS",
		Short: "Make a pool, or change its size",
		Long: fmt.Sprintf(`Make a pool with so many slots, 1 to %d, or change its size.

A smaller size ends nobody's work: who holds a slot keeps it, and nobody gets in until
fewer than the new size are used. A waiter that asks for more slots than there are
now is refused (exit 11).

Versions of tasklock from before pools cannot use the store once it has a pool.`, lease.MaxSlots),
		Example: `  tasklock pools set tests 4
  tasklock pools set staging 1 --reason "database is slow today"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return session.Usagef("takes a pool and its slots, got %d arguments", len(args))
			}
			return nil
		},
		ValidArgsFunction: poolNames(s, 1),
		RunE: s.Run(func(ctx context.Context, args []string) error {
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return session.Usagef("slots: must be a number from 1 to %d, not %q", lease.MaxSlots, term.Short(args[1], 40))
			}
			id, st, err := s.Act(ctx, true)
			if err != nil {
				return err
			}
			p, err := lease.SetPool(ctx, st, lease.SetPoolRequest{Name: args[0], Slots: n, By: id.Owner, Reason: reason, DryRun: s.DryRun})
			if err != nil {
				return err
			}
			return s.Answer(map[string]any{"pool": p}, func(out *term.Printer) { printSet(out, p, n) })
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "the reason, shown to others")
	return cmd
}

// printSet says what became of a pool. In a dry run it still has its old size.
func printSet(out *term.Printer, p lease.PoolInfo, size int) {
	out.Line("%s pool %s to %s.", out.Did("Set", "Would set"), p.Pool, term.Plural(size, "slot"))
	if p.Used > size {
		out.Line("%d are used: nobody gets in until fewer than %d are.", p.Used, size)
	}
}

func newPoolsListCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the pools, and how full they are",
		Long: `List the pools, and how full they are.

In a pipe, tabs separate the fields: name, slots, used slots, waiters, who set the
size, since when, and the reason. --quiet prints only the names.`,
		Args: session.NoArgs,
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, _ []string) error {
			out, err := lease.Pools(ctx, st)
			if err != nil {
				return err
			}
			names := term.Each(out.Pools, func(p lease.PoolInfo) string { return p.Pool })
			return s.AnswerNames(out, names, func(p *term.Printer) {
				p.Wide = p.Wide || s.Identity().Agent
				printPools(p, out.Pools)
			})
		}),
	}
}

func printPools(p *term.Printer, pools []lease.PoolInfo) {
	var rows [][]term.Text
	for _, pool := range pools {
		look, since := term.Green, term.Stamp(pool.Since)
		if pool.Full() {
			look = term.Yellow
		}
		if p.Wide {
			since = p.Relative(pool.Since)
		}
		rows = append(rows, term.Row(term.Strong.Of(pool.Pool), pool.Size, look.Of(strconv.Itoa(pool.Used)), pool.Waiters, term.Short(pool.By, 40), since, shortReason(pool.Reason)))
	}
	p.List("No pools.", []string{"POOL", "SLOTS", "USED", "WAITERS", "SET BY", "SINCE", "REASON"}, rows)
}

func newPoolsShowCmd(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:               "show POOL",
		Short:             "Show one pool: who holds its slots and who waits",
		Args:              session.One("pool"),
		ValidArgsFunction: poolNames(s, 1),
		RunE: s.RunStore(func(ctx context.Context, st *store.Store, names []string) error {
			out, err := lease.ShowPool(ctx, st, names[0])
			if err != nil {
				return noPool(s, err, names[0])
			}
			return s.Answer(map[string]any{"pool": out}, func(p *term.Printer) { printPool(p, &out.PoolInfo, out.Queue) })
		}),
	}
}

func newPoolsRemoveCmd(s *session.Session) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "remove POOL",
		Short: "Remove a pool that nobody uses",
		Long: `Remove a pool that nobody uses.

Exit codes:
  4  there is no such pool
  11  somebody holds a slot of it or waits for one`,
		Args:              session.One("pool"),
		ValidArgsFunction: poolNames(s, 1),
		RunE: s.RunAs(func(ctx context.Context, st *store.Store, by string, names []string) error {
			err := lease.RemovePool(ctx, st, lease.RemovePoolRequest{Name: names[0], By: by, Reason: reason, DryRun: s.DryRun})
			if err != nil {
				return noPool(s, err, names[0])
			}
			name := strings.TrimPrefix(names[0], string(lease.Pool)+":")
			return s.Answer(map[string]string{"pool": name}, func(p *term.Printer) {
				p.Line("%s pool %s.", p.Did("Removed", "Would remove"), name)
			})
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "the reason, for the history")
	return cmd
}

// noPool names the pool that was not found.
func noPool(s *session.Session, err error, name string) error {
	if errors.Is(err, lease.ErrNotFound) {
		err = fmt.Errorf("pool %s: %w", strings.TrimPrefix(name, string(lease.Pool)+":"), err)
		return session.WithNext(err, s.CommandLine("pools", "list"))
	}
	return err
}

// printPool prints everything about a pool.
func printPool(p *term.Printer, pool *lease.PoolInfo, queue []lease.Waiter) {
	rows := term.Fields{{"pool", pool.Pool}}
	if pool.Size == 0 {
		rows.Add("slots", "not set")
	} else {
		rows.Add("slots", fmt.Sprintf("%d, set by %s %s", pool.Size, pool.By, p.When(pool.Since)))
	}
	rows.Add("reason", pool.Reason)
	rows.Add("state", view.Used(pool))
	for _, h := range pool.Holders {
		_, slot, _ := strings.Cut(h.Key, "#")
		rows.Add("slot "+slot, fmt.Sprintf("%s, token %d, %s%s", h.Owner, h.Token, view.EndsIn(p, h.ExpiresAt), because(h.Reason)))
	}
	for i, w := range queue {
		rows.Add("waiter "+strconv.Itoa(i+1), waiterText(p, w)+takes(w.Take))
	}
	p.Fields(rows)
}

func because(reason string) string {
	if reason = shortReason(reason); reason != "" {
		return ", " + reason
	}
	return ""
}

func takes(n int) string {
	switch n {
	case 0, 1:
		return ""
	case lease.TakeAll:
		return ", takes all"
	}
	return fmt.Sprintf(", takes %d", n)
}
