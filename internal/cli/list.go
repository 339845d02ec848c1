package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
)

type listOptions struct {
	whose
	kind      string
	olderThan durationFlag
	limit     int
}

// agentLimit is how many lines a coding agent gets unless it asks for more.
const agentLimit = 20

func newListCmd(a *App) *cobra.Command {
	o := &listOptions{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the locks",
		Long: `List the locks, one line each; expired ones too, their state says so. --mine and
--of OWNER narrow it, --owner does not. --older-than only warns.

In a pipe the fields are separated by tabs: key, owner, state, token, since,
last heartbeat, expiry, waiters, host, pid, reason, and whether that process is
alive, dead or unknown. --quiet prints the keys alone.`,
		Args: noArgs,
	}
	cmd.RunE = a.does(func(ctx context.Context, _ []string) error {
		if !cmd.Flags().Changed("limit") && !a.JSON && a.Identity().Agent {
			o.limit = agentLimit
		}
		return o.run(ctx, a)
	})
	f := cmd.Flags()
	o.olderThan = durationFlag{min: time.Second, max: 3650 * 24 * time.Hour}
	o.whose.flags(cmd)
	f.StringVar(&o.kind, "kind", "", "only keys of this kind: task, section, job or path")
	f.Var(&o.olderThan, "older-than", "warn about locks that were taken longer ago")
	f.IntVar(&o.limit, "limit", 0, "at most so many; 0: all")
	a.offlineFlag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"task", "section", "job", "path"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *listOptions) run(ctx context.Context, a *App) error {
	r := lease.ListRequest{Owner: o.owner(a), Kind: lease.Kind(o.kind)}
	switch r.Kind {
	case "", lease.Task, lease.Section, lease.Job, lease.Path:
	default:
		return usagef("--kind: must be task, section, job or path, not %q", short(o.kind, 40))
	}
	if o.limit < 0 {
		return usagef("--limit: must not be negative")
	}
	st, err := a.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := lease.List(ctx, st, r)
	if err != nil {
		return err
	}
	o.warn(a, out.Locks)
	shown := out.Locks
	if o.limit > 0 && len(shown) > o.limit {
		shown = shown[:o.limit]
		defer a.note("%d of %d locks. Narrow it with --mine, --of OWNER or --kind KIND; --limit 0 shows all.", len(shown), len(out.Locks))
	}
	if a.Quiet && !a.JSON {
		p := a.printer()
		for _, l := range shown {
			p.line("%s", l.Key)
		}
		return p.flush()
	}
	return a.answer(lease.ListResult{Locks: shown}, func(p *printer) {
		p.wide = p.wide || a.Identity().Agent
		if len(shown) == 0 && p.wide {
			p.line("No locks.")
			return
		}
		p.locks(shown)
	})
}

func (o *listOptions) warn(a *App, locks []lease.Info) {
	for _, l := range locks {
		if age := a.Now().Sub(l.AcquiredAt); o.olderThan.given && age > o.olderThan.value {
			a.warn("%s is held by %s since %s (%s).", l.Key, short(l.Owner, 60), rough(age), stamp(l.AcquiredAt))
		}
	}
}

// shortReason is a reason in a table, quoted.
func shortReason(reason string) string {
	if reason = strings.Join(strings.Fields(reason), " "); reason == "" {
		return ""
	}
	return `"` + short(strings.ReplaceAll(reason, `"`, "'"), 60) + `"`
}

// locks prints a table of them.
func (p *printer) locks(locks []lease.Info) {
	var rows [][]styled
	for _, l := range locks {
		rows = append(rows, p.lockRow(l))
	}
	head := []string{"KEY", "OWNER", "STATE", "TOKEN", "HELD", "SEEN", "EXPIRES", "WAITERS", "WHERE"}
	if slices.ContainsFunc(locks, func(l lease.Info) bool { return l.Reason != "" }) {
		head = append(head, "REASON (THE OWNER'S WORDS)")
		for i := range rows {
			if p.wide {
				rows[i] = append(rows[i], row(shortReason(locks[i].Reason))...)
			}
		}
	}
	p.table(head, rows)
}

func (p *printer) lockRow(l lease.Info) []styled {
	look, pid := green, ""
	if l.State != lease.Held {
		look = red
	}
	state := look.of(string(l.State))
	if l.PID != 0 {
		pid = strconv.Itoa(l.PID)
	}
	if !p.wide {
		return row(l.Key, l.Owner, state, l.Token, stamp(l.AcquiredAt), stamp(l.HeartbeatAt), endStamp(l.ExpiresAt), l.Waiters, l.Host, pid, l.Reason, l.Life)
	}
	where := l.Host
	if pid != "" {
		where = fmt.Sprintf("%s:%s %s", where, pid, l.Life)
	}
	held := rough(p.now.Sub(l.AcquiredAt))
	return row(strong.of(l.Key), short(l.Owner, 40), state, l.Token, held, p.relative(l.HeartbeatAt), p.endIn(l.ExpiresAt), l.Waiters, faint.of(where))
}
