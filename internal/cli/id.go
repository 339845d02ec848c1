package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func newIDCmd(a *App) *cobra.Command {
	next := &cobra.Command{
		Use:   "next",
		Short: "Draw the next number; nobody else gets it",
		Long: `Draw the next number for a task, for scripts that name their tasks themselves. It
comes from the counter that tasks add uses: nobody else gets it, now or later.`,
		Example: `  N=$(tasklock id next) && tasklock tasks add "$TITLE" --id "t$N"`,
	}
	peek := &cobra.Command{Use: "peek", Short: "Show the number that next would draw, and leave it"}
	resync := &cobra.Command{
		Use:   "resync",
		Short: "Lift the counter above every number that a task has or had",
		Long: `Lift the counter above every number that a task has or had, after tasks came from
elsewhere. It never goes down.`,
	}
	a.idCmd(next, true, func(ctx context.Context, st *store.Store) (int64, error) { return task.NextNumber(ctx, st, a.DryRun) })
	a.idCmd(peek, false, task.PeekNumber)
	a.idCmd(resync, false, func(ctx context.Context, st *store.Store) (int64, error) { return task.Resync(ctx, st, a.DryRun) })
	return a.group("id", "Numbers for tasks, each given out once", next, peek, resync, newIDSetCmd(a))
}

func newIDSetCmd(a *App) *cobra.Command {
	var n int64
	cmd := &cobra.Command{
		Use:     "set N",
		Short:   "Go on with this number; never below one that was given out",
		Example: `  tasklock id set 500`,
	}
	a.idCmd(cmd, true, func(ctx context.Context, st *store.Store) (int64, error) { return task.SetNumber(ctx, st, n, a.DryRun) })
	cmd.Args = func(_ *cobra.Command, args []string) (err error) {
		if len(args) != 1 {
			return usagef("takes one number, got %d", len(args))
		}
		if n, err = strconv.ParseInt(args[0], 10, 64); err != nil || n < 1 || n > maxNumber {
			return usagef("must be a number from 1 to %d, not %q", maxNumber, short(args[0], 40))
		}
		return nil
	}
	return cmd
}

// maxNumber is far above what anybody draws, and far below where numbers end.
const maxNumber = 1_000_000_000

func (a *App) idCmd(cmd *cobra.Command, write bool, number func(context.Context, *store.Store) (int64, error)) {
	cmd.Args = noArgs
	cmd.RunE = a.does(func(ctx context.Context, _ []string) error {
		st, err := a.Store(ctx, write)
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
		if !a.JSON { // the number, with --quiet too: else nobody would have it
			p := a.printer()
			p.line("%d", n)
			return p.flush()
		}
		return a.answer(data, nil)
	})
}
