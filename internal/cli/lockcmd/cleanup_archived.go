package lockcmd

import (
	"context"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// cleanupArchived frees the locks of archived tasks, and nothing else.
func cleanupArchived(ctx context.Context, s *session.Session, st *store.Store) error {
	freed := []string{}
	for { // one commit has room for some only
		some, err := task.FreeArchived(ctx, st, s.Identity().Owner, s.DryRun)
		if err != nil {
			return err
		}
		freed = append(freed, some...)
		if s.DryRun || len(some) == 0 {
			break
		}
	}
	return s.Answer(map[string][]string{"freed": freed}, func(p *term.Printer) {
		for _, key := range freed {
			p.Line("%s %s (archived).", p.Did("Freed", "Would free"), key)
		}
		if len(freed) == 0 {
			p.Line("Nothing to free.")
		}
	})
}
