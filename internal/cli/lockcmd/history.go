package lockcmd

import (
	"context"
	"errors"
	"slices"
	"strings"

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

type watchOptions struct{ count int }

func NewWatch(s *session.Session) *cobra.Command {
	o := &watchOptions{}
	cmd := &cobra.Command{
		Use:   "watch [KEY...]",
		Short: "Print what happens, as it happens",
		Long: `Print events as they happen, of all keys or of the named ones, until Ctrl+C. With
--json every line is one event.`,
		ValidArgsFunction: s.HeldKeys(),
		RunE:              s.RunKeys(func(ctx context.Context, keys []string) error { return o.run(ctx, s, keys) }),
	}
	cmd.Flags().IntVar(&o.count, "count", 0, "end after this many events; 0: never")
	return cmd
}

// errEnough ends a watch that has seen what it wanted.
var errEnough = errors.New("enough")

func (o *watchOptions) run(ctx context.Context, s *session.Session, keys []string) error {
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	if keys, err = lease.WithTasks(ctx, st, keys); err != nil {
		return err
	}
	ctx, stop := session.Listen(ctx)
	defer stop()
	seen := 0
	ready := func() { s.Note("Watching... (Ctrl+C to end)") }
	err = lease.Watch(ctx, st, ready, func(e lease.Event) error {
		if len(keys) > 0 && !slices.ContainsFunc(keys, e.About) {
			return nil
		}
		if err := watched(s, e); err != nil {
			return err
		}
		if seen++; seen == o.count {
			return errEnough
		}
		return nil
	})
	var signal *session.SignalError
	if errors.Is(err, errEnough) || errors.As(session.Interrupted(ctx, err), &signal) {
		return nil // that is how a watch ends
	}
	return err
}

func watched(s *session.Session, e lease.Event) error {
	if s.JSON {
		return s.WriteJSON(e)
	}
	p := s.Printer()
	args := make([]any, 0, 6)
	for _, c := range view.EventRow(e) {
		args = append(args, term.Text(c))
	}
	p.Line(strings.TrimSpace(strings.Repeat("%s\t", len(args))), args...)
	return p.Flush()
}
