// Package lockcmd has the commands that look at locks and clear them away.
// Each New function makes the command of its name.
package lockcmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
)

type listOptions struct {
	session.Whose
	kind      string
	olderThan session.DurationFlag
	page      session.Page
}

func NewList(s *session.Session) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the locks",
		Long: `List the locks, one line each, expired ones too. --mine and --of OWNER show only one
owner's locks; --owner does not. --older-than only warns. --limit and --after read
the list page by page, in the order of the keys.

In a pipe, tabs separate the fields: key, owner, state, token, since, last
heartbeat, expiry, waiters, host, pid, reason, and whether that process is alive,
dead or unknown. --quiet prints only the keys. In JSON, "next" is the key to give to
--after for the next page; the last page has none.`,
		Args: session.NoArgs,
	}
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		if err := o.page.Begin(s, cmd); err != nil {
			return err
		}
		return o.run(ctx, s)
	})
	f := cmd.Flags()
	o.olderThan = session.DurationFlag{Min: time.Second, Max: 3650 * 24 * time.Hour}
	o.Whose.Flags(cmd)
	f.StringVar(&o.kind, "kind", "", "only keys of this kind: task, section, job, path or pool")
	f.Var(&o.olderThan, "older-than", "warn about locks that are held for longer")
	o.page.Flags(cmd, "KEY")
	session.OfflineFlag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"task", "section", "job", "path", "pool"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *listOptions) run(ctx context.Context, s *session.Session) error {
	r := lease.ListRequest{Owner: o.Owner(s), Kind: lease.Kind(o.kind), After: o.page.After}
	if o.page.Asked && !o.olderThan.Given { // which warns about those that are not shown too
		r.Limit = o.page.Limit
	}
	switch r.Kind {
	case "", lease.Task, lease.Section, lease.Job, lease.Path, lease.Pool:
	default:
		return session.Usagef("--kind: must be task, section, job, path or pool, not %q", term.Short(o.kind, 40))
	}
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := lease.List(ctx, st, r)
	if err != nil {
		return err
	}
	o.warn(s, out.Locks)
	if n, all := o.page.Limit, len(out.Locks); n > 0 && all > n {
		if out.Locks = out.Locks[:n]; o.page.Asked {
			out.Next = out.Locks[n-1].Key
		} else {
			defer s.Note("%d of %d locks. Narrow it with --mine, --of OWNER or --kind KIND; --limit 0 shows all.", n, all)
		}
	}
	defer s.More(out.Next)
	keys := term.Each(out.Locks, func(l lease.Info) string { return l.Key })
	return s.AnswerNames(out, keys, func(p *term.Printer) {
		p.Wide = p.Wide || s.Identity().Agent
		printLocks(p, out.Locks)
	})
}

func (o *listOptions) warn(s *session.Session, locks []lease.Info) {
	for _, l := range locks {
		if age := s.Now().Sub(l.AcquiredAt); o.olderThan.Given && age > o.olderThan.Value {
			s.Warn("%s is held by %s since %s (%s).", l.Key, term.Short(l.Owner, 60), term.Rough(age), term.Stamp(l.AcquiredAt))
		}
	}
}

// shortReason is a reason in a table, quoted.
func shortReason(reason string) string {
	if reason = strings.Join(strings.Fields(reason), " "); reason == "" {
		return ""
	}
	return `"` + term.Short(strings.ReplaceAll(reason, `"`, "'"), 60) + `"`
}

// printLocks prints a table of them.
func printLocks(p *term.Printer, locks []lease.Info) {
	var rows [][]term.Text
	for _, l := range locks {
		rows = append(rows, lockRow(p, l))
	}
	head := []string{"KEY", "OWNER", "STATE", "TOKEN", "HELD", "SEEN", "EXPIRES", "WAITERS", "WHERE"}
	if slices.ContainsFunc(locks, func(l lease.Info) bool { return l.Reason != "" }) {
		head = append(head, "REASON (THE OWNER'S WORDS)")
		for i := range rows {
			if p.Wide {
				rows[i] = append(rows[i], term.Row(shortReason(locks[i].Reason))...)
			}
		}
	}
	p.List("No locks.", head, rows)
}

func lockRow(p *term.Printer, l lease.Info) []term.Text {
	look, pid := term.Green, ""
	if l.State != lease.Held {
		look = term.Red
	}
	state := look.Of(string(l.State))
	if l.PID != 0 {
		pid = strconv.Itoa(l.PID)
	}
	if !p.Wide {
		return term.Row(l.Key, l.Owner, state, l.Token, term.Stamp(l.AcquiredAt), term.Stamp(l.HeartbeatAt), view.EndStamp(l.ExpiresAt), l.Waiters, l.Host, pid, l.Reason, l.Life)
	}
	where := l.Host
	if pid != "" {
		where = fmt.Sprintf("%s:%s %s", where, pid, l.Life)
	}
	held := term.Rough(p.Now.Sub(l.AcquiredAt))
	return term.Row(term.Strong.Of(l.Key), term.Short(l.Owner, 40), state, l.Token, held, p.Relative(l.HeartbeatAt), view.EndIn(p, l.ExpiresAt), l.Waiters, term.Faint.Of(where))
}

// NewLocks offers the commands about locks under their long names. Alone it
// lists.
func NewLocks(s *session.Session, release *cobra.Command) *cobra.Command {
	cmd := NewList(s)
	cmd.Use, cmd.Short, cmd.Args = "locks", "The same as list, show, release and cleanup (default: list)", session.NoSuchCommand
	cmd.AddCommand(NewList(s), NewShow(s), release, NewCleanup(s))
	return cmd
}
