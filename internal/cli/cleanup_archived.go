package cli

import (
	"context"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

// cleanupArchived frees the locks of archived tasks, and nothing else.
func cleanupArchived(ctx context.Context, a *App, st *store.Store) error {
	freed := []string{}
	for { // one commit has room for some only
		some, err := task.FreeArchived(ctx, st, a.Identity().Owner, a.DryRun)
		if err != nil {
			return err
		}
		freed = append(freed, some...)
		if a.DryRun || len(some) == 0 {
			break
		}
	}
	return a.answer(map[string][]string{"freed": freed}, func(p *printer) {
		for _, key := range freed {
			p.line("%s %s (archived).", a.did("Freed", "Would free"), key)
		}
		if len(freed) == 0 {
			p.line("Nothing to free.")
		}
	})
}
