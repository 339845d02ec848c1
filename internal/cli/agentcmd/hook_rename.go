package agentcmd

import (
	"context"
	"slices"

	"github.com/tasklock/tasklock/internal/githooks"
	"github.com/tasklock/tasklock/internal/harness"
	"github.com/tasklock/tasklock/internal/place"
)

// pass lets the action go on. If the harness gives a command no owner, or another
// one's, pass adds the right owner to the command; if git would run no guard, pass
// adds that too.
func (h *hook) pass(ctx context.Context) harness.Reply {
	if h.What != harness.BeforeTool || !h.unnamed && !h.Hookless() {
		return h.Pass()
	}
	n := harness.Naming{Owner: h.s.Identity().Owner, Named: !h.unnamed, Guarded: func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return githooks.Live(ctx, dir, h.s.Env) })
	}}
	if h.Hookless() {
		n.Hooks = githooks.Folder(place.State(h.s.Env))
	}
	return h.Rename(n)
}
