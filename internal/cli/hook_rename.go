package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/agent"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
)

// pass lets the action go on. If the harness gives a command no owner, or another
// one's, pass adds the right owner to the command; if git would run no guard, pass
// adds that too.
func (h *hook) pass(ctx context.Context) agent.Reply {
	if h.What != agent.BeforeTool || !h.unnamed && !h.Hookless() {
		return h.Pass()
	}
	n := agent.Naming{Owner: h.app.id.Owner, Named: !h.unnamed, Guarded: func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return h.app.at(dir).guarded(ctx) })
	}}
	if h.Hookless() {
		n.Hooks = h.app.guardFolder()
	}
	return h.Rename(n)
}

// guardFolder is a folder of hooks, in the user's state folder, that holds the guard
// and nothing else; empty where it cannot be.
func (a *App) guardFolder() string {
	state, base := place.State(a.Env)
	if state == "" || !repo.IsDir(base) {
		return ""
	}
	dir := filepath.Join(state, "hooks")
	if os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	for _, hook := range guarded {
		file := filepath.Join(dir, hook)
		script := "#!/bin/sh\nexec tasklock guard run " + hook + " \"$@\"\n"
		if is, err := os.ReadFile(file); err == nil && string(is) == script && executable(file) {
			continue
		}
		if err := writeWhole(file, []byte(script), 0o700); err != nil {
			return ""
		}
	}
	return dir
}

// askGuardTime is how long git may take to say where its hooks are: the hook must
// answer even if git hangs. Tests are more patient.
var askGuardTime = 500 * time.Millisecond

// guarded reports whether git asks a guard in this folder.
func (a *App) guarded(ctx context.Context) bool {
	if fi, err := os.Stat(a.Dir); err != nil || !fi.IsDir() {
		return false
	}
	tree, err := repo.TreeOf(a.Dir)
	if err != nil || tree.Git == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askGuardTime)
	defer cancel()
	states, err := a.guardStates(ctx, tree.Top)
	return err == nil && slices.ContainsFunc(states, func(s guardState) bool { return s.Live })
}
