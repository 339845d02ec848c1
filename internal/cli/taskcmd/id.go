package taskcmd

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func NewID(s *session.Session) *cobra.Command {
	next := &cobra.Command{
		Use:   "next",
		Short: "Draw the next number; nobody else gets it",
		Long: `Draw the next task number, for scripts that name their tasks themselves. It comes
from the counter that tasks add uses: nobody else gets it, now or later.`,
		Example: `  N=$(tasklock id next) && tasklock tasks add "$TITLE" --id "t$N"`,
	}
	peek := &cobra.Command{Use: "peek", Short: "Show the next number without drawing it"}
	resync := &cobra.Command{
		Use:   "resync",
		Short: "Raise the counter above every number that a task has or had",
		Long: `Raise the counter above every number that a task has or had, after you added tasks
from elsewhere. It never goes down.`,
	}
	idCmd(s, next, true, func(ctx context.Context, st *store.Store) (int64, error) { return task.NextNumber(ctx, st, s.DryRun) })
	idCmd(s, peek, false, task.PeekNumber)
	idCmd(s, resync, false, func(ctx context.Context, st *store.Store) (int64, error) { return task.Resync(ctx, st, s.DryRun) })
	return session.Group("id", "Draw task numbers, each given out once", next, peek, resync, newIDSetCmd(s))
}

func newIDSetCmd(s *session.Session) *cobra.Command {
	var n int64
	cmd := &cobra.Command{
		Use:     "set N",
		Short:   "Continue from this number, never below one already drawn",
		Example: `  tasklock id set 500`,
	}
	idCmd(s, cmd, true, func(ctx context.Context, st *store.Store) (int64, error) { return task.SetNumber(ctx, st, n, s.DryRun) })
	cmd.Args = func(_ *cobra.Command, args []string) (err error) {
		if len(args) != 1 {
			return session.Usagef("takes one number, got %d", len(args))
		}
		if n, err = strconv.ParseInt(args[0], 10, 64); err != nil || n < 1 || n > maxNumber {
			return session.Usagef("must be a number from 1 to %d, not %q", maxNumber, term.Short(args[0], 40))
		}
		return nil
	}
	return cmd
}

// maxNumber is far above what anybody draws, and far below where numbers end.
const maxNumber = 1_000_000_000

func idCmd(s *session.Session, cmd *cobra.Command, write bool, number func(context.Context, *store.Store) (int64, error)) {
	cmd.Args = session.NoArgs
	cmd.RunE = s.Run(func(ctx context.Context, _ []string) error {
		st, err := s.Store(ctx, write)
		if err != nil {
			return err
		}
		n, err := number(ctx, st)
		if err != nil {
			return err
		}
		data := struct {
			Number int64  `json:"number"`
			ID     string `json:"id"`
		}{n, fmt.Sprintf("t%d", n)}
		number := strconv.FormatInt(n, 10) // --quiet prints it too: otherwise nobody would have it
		return s.AnswerNames(data, []string{number}, func(p *term.Printer) { p.Line("%s", number) })
	})
}
