package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"github.com/tasklock/tasklock/agent"
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
	dir, err := a.hooksFolder(ctx)
	return err == nil && slices.ContainsFunc(guarded, func(hook string) bool {
		script, err := os.ReadFile(filepath.Join(dir, hook))
		return err == nil && ours(script)
	})
}
