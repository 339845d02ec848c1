package taskcmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// taskIDs completes ids of tasks in one of the statuses, or in any if none is
// given.
func taskIDs(s *session.Session, in ...task.Status) cobra.CompletionFunc {
	return s.Completion(0, idsIn(in))
}

// firstTask completes the id of one task.
func firstTask(s *session.Session) cobra.CompletionFunc { return s.Completion(1, idsIn(nil)) }

func idsIn(status []task.Status) func(context.Context, *store.Store) ([]string, error) {
	return func(ctx context.Context, st *store.Store) ([]string, error) {
		out, err := task.List(ctx, st, task.ListRequest{Status: status})
		return term.Each(out.Tasks, func(t task.Info) string { return t.ID + "\t" + term.Clean(term.Short(t.Title, 60)) }), err
	}
}

// sectionNames completes names of sections, up to so many; 0: any number.
func sectionNames(s *session.Session, most int) cobra.CompletionFunc {
	return s.Completion(most, func(ctx context.Context, st *store.Store) ([]string, error) {
		out, err := task.Sections(ctx, st, "")
		return term.Each(out.Sections, func(section task.SectionInfo) string { return term.Clean(section.Name) }), err
	})
}

// completeFlags registers what is known about common flags of task commands.
func completeFlags(s *session.Session, cmd *cobra.Command) *cobra.Command {
	words := func(list ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
	}
	for name, fn := range map[string]cobra.CompletionFunc{
		"section": sectionNames(s, 0), "status": words(statusNames()...), "priority": words("high", "medium", "low"),
		"depends-on": taskIDs(s), "parent": taskIDs(s), "format": words("json", "markdown"),
	} {
		if cmd.Flags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, fn)
		}
	}
	return cmd
}
