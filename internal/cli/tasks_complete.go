package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// suggestions come from the store, soon or not at all: see heldKeys.
func (a *App) suggestions(find func(context.Context, *store.Store) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	a.Quiet = true
	st, err := a.Store(ctx, false)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words, err := find(ctx, st)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

// taskIDs completes ids of tasks. Those in one of the statuses, if any are
// given; those that are on the line already are left out.
func (a *App) taskIDs(in ...task.Status) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.suggestions(func(ctx context.Context, st *store.Store) (words []string, err error) {
			out, err := task.List(ctx, st, task.ListRequest{Status: in})
			for _, t := range out.Tasks {
				if !slices.Contains(args, t.ID) {
					words = append(words, t.ID+"\t"+clean(short(t.Title, 60)))
				}
			}
			return words, err
		})
	}
}

// firstTask is taskIDs for commands that take one task.
func (a *App) firstTask(cmd *cobra.Command, args []string, text string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.taskIDs()(cmd, args, text)
}

// sectionNames completes names of sections.
func (a *App) sectionNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.suggestions(func(ctx context.Context, st *store.Store) (words []string, err error) {
		out, err := task.Sections(ctx, st, "")
		for _, s := range out.Sections {
			if !slices.Contains(args, s.Name) {
				words = append(words, clean(s.Name))
			}
		}
		return words, err
	})
}

// completeFlags registers what is known about common flags of task commands.
func (a *App) completeFlags(cmd *cobra.Command) *cobra.Command {
	words := func(list ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
	}
	var statuses []string
	for _, s := range task.Statuses {
		statuses = append(statuses, string(s))
	}
	for name, fn := range map[string]cobra.CompletionFunc{
		"section": a.sectionNames, "status": words(statuses...), "priority": words("high", "medium", "low"),
		"depends-on": a.taskIDs(), "parent": a.taskIDs(), "format": words("json", "markdown"),
	} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, fn)
		}
	}
	return cmd
}
