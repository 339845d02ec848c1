package taskcmd

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
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func newTasksHistoryCmd(s *session.Session) *cobra.Command {
	limit := 50
	var w session.Whose
	cmd := &cobra.Command{
		Use:   "history [TASK]",
		Short: "Show what happened to a task, or to all of them, oldest first",
		Long: `Show what happened to tasks, oldest first. With TASK, also show its lock; name a
deleted task by its full id. --mine and --of OWNER show only what one owner and its
children did.`,
		Args:              session.AtMostOne("task", quoteTitle),
		ValidArgsFunction: firstTask(s),
		RunE: s.Run(func(ctx context.Context, refs []string) error {
			if limit < 0 {
				return session.Usagef("--limit: must not be negative")
			}
			st, err := s.Store(ctx, false)
			if err != nil {
				return err
			}
			events, err := taskEvents(ctx, st, w.Owner(s), refs)
			if err != nil {
				return err
			}
			if limit > 0 && len(events) > limit {
				events = events[len(events)-limit:]
			}
			return s.Answer(lease.HistoryResult{Events: events}, func(p *term.Printer) { view.PrintEvents(p, s.Identity().Agent, events) })
		}),
	}
	w.Flags(cmd)
	cmd.Flags().IntVar(&limit, "limit", 50, "show at most this many, the newest; 0: all")
	return cmd
}

func taskEvents(ctx context.Context, st *store.Store, owner string, refs []string) ([]lease.Event, error) {
	r := lease.HistoryRequest{Owner: owner}
	var missing error
	if len(refs) > 0 {
		i, err := task.Show(ctx, st, refs[0])
		var none *task.NotFoundError
		switch {
		case errors.As(err, &none):
			r.Key, missing = refs[0], err
			if _, bad := lease.CheckKey(r.Key); bad != nil {
				return nil, missing
			}
		case err != nil:
			return nil, err
		default:
			r.Key = i.ID
		}
	}
	out, err := lease.History(ctx, st, r)
	if err != nil {
		return nil, err
	}
	if r.Key == "" {
		out.Events = slices.DeleteFunc(out.Events, func(e lease.Event) bool { return !strings.HasPrefix(e.Event, "task ") })
	}
	if len(out.Events) == 0 && missing != nil {
		return nil, missing
	}
	return append([]lease.Event{}, out.Events...), nil
}
