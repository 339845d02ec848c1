package lockcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/lease"
)

type historyOptions struct {
	session.Whose
	limit int
}

func NewHistory(s *session.Session) *cobra.Command {
	o := &historyOptions{}
	cmd := &cobra.Command{
		Use:   "history [KEY]",
		Short: "Show what happened, oldest first",
		Long: `Show who acquired, released, took over, broke or cleaned up what, and why, oldest
first. With KEY, show only that key; --mine and --of OWNER show only one owner and
its children.`,
		Args:              session.AtMostOne("key"),
		ValidArgsFunction: s.HeldKeys(),
		RunE:              s.RunKeys(func(ctx context.Context, keys []string) error { return o.run(ctx, s, keys) }),
	}
	o.Whose.Flags(cmd)
	cmd.Flags().IntVar(&o.limit, "limit", 50, "show at most this many, the newest; 0: all")
	return cmd
}

func (o *historyOptions) run(ctx context.Context, s *session.Session, keys []string) error {
	if o.limit < 0 {
		return session.Usagef("--limit: must not be negative")
	}
	r := lease.HistoryRequest{Owner: o.Owner(s), Limit: o.limit}
	if len(keys) > 0 {
		r.Key = keys[0]
	}
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	out, err := lease.History(ctx, st, r)
	if err != nil {
		return err
	}
	if out.Events == nil {
		out.Events = []lease.Event{}
	}
	return s.Answer(out, func(p *term.Printer) { view.PrintEvents(p, s.Identity().Agent, out.Events) })
}
