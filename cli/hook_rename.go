package cli

import (
	"context"
	"os"
	"slices"

	"github.com/tasklock/tasklock/agent"
	"github.com/tasklock/tasklock/repo"
)

// pass lets the action go on. Where the harness tells a command no owner, or that
// of somebody else, the command is told here.
func (h *hook) pass(ctx context.Context) agent.Reply {
	if h.What != agent.BeforeTool || !h.unnamed {
		return h.Pass()
	}
	return h.Rename(h.app.id.Owner, func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return h.app.at(dir).guarded(ctx) })
	})
}

// guarded reports whether git asks a guard in this folder.
func (a *App) guarded(ctx context.Context) bool {
	if fi, err := os.Stat(a.Dir); err != nil || !fi.IsDir() {
		return false
	}
	tree, err := repo.TreeOf(a.Dir)
	if err != nil || tree.Git == "" {
		return false
	}
	states, err := a.guardStates(ctx, tree.Top)
	return err == nil && slices.ContainsFunc(states, func(s guardState) bool { return s.Live })
}
