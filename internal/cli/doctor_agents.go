package cli

import (
	"context"
	"os/exec"
	"strings"

	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/githooks"
	"github.com/tasklock/tasklock/internal/harness"
	"github.com/tasklock/tasklock/internal/repo"
)

// agents tells whether the coding agents that are set up have all that they
// need, in this worktree and the others.
func (x *examination) agents(ctx context.Context) {
	tree, err := repo.TreeOf(x.app.Dir)
	if err != nil {
		return
	}
	others := []string{}
	if tree.Git != "" {
		others = git.OtherWorktrees(ctx, tree)
	}
	for _, name := range harness.Installable() {
		in, err := x.app.installation(ctx, name)
		if err != nil || !in.present() {
			continue
		}
		again := x.app.commandLine("agents", "install", name)
		if plan, err := in.whicheverIsThere(); err != nil {
			x.fail("agents", again, err)
			continue
		} else if missing := missingOf(plan); len(missing) > 0 {
			x.warn("agents", again, "%s is set up, but not in %s", name, strings.Join(missing, ", "))
			continue
		}
		var without []string
		for _, other := range others {
			if !in.in(other).present() {
				without = append(without, other)
			}
		}
		switch off := in.switchedOff(); {
		case off != "":
			x.warn("agents", "", "%s is set up, but %s switches all hooks off (disableAllHooks)", name, off)
		case !onPath("tasklock"):
			x.warn("agents", "", "%s is set up, but its hooks do not find tasklock: it is not on the PATH", name)
		case len(without) > 0:
			x.warn("agents", inFolder(without[0], again), "%s is set up here, but its hooks are not in %s", name, strings.Join(without, ", "))
		default:
			x.ok("agents", "%s is set up", name)
		}
	}
}

// switchedOff names the settings of Claude Code that keep it from running any
// hook; empty: none do.
func (in *installation) switchedOff() string {
	if in.setup.Harness != "claude" {
		return ""
	}
	for _, name := range []string{".claude/settings.local.json", ".claude/settings.json", "~/.claude/settings.json"} {
		if harness.Setting(in.setup.Read(name), "disableAllHooks") == "true" {
			return name
		}
	}
	return ""
}

// guard tells whether git calls the guard, in this worktree and the others.
func (x *examination) guard(ctx context.Context) {
	all, err := githooks.States(ctx, x.app.Dir, x.app.Env)
	if err != nil || len(all) == 0 {
		return // no repository, which config and place speak of
	}
	dead := githooks.Dead(all)
	for _, s := range dead {
		x.warn("guard", inFolder(s.Worktree, s.Next), "not live for %s in %s: %s", s.Hook, s.Worktree, s.Why)
	}
	switch n := len(all) / len(githooks.Names); {
	case len(dead) > 0:
	case !all[0].Live:
		x.ok("guard", "not installed: git takes commits that touch what others have locked (%s)", x.app.commandLine("guard", "install"))
	default:
		x.ok("guard", "live: git calls it before commits and pushes, in %s", plural(n, "worktree"))
	}
}

func onPath(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
