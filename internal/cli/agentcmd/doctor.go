package agentcmd

import (
	"context"
	"os/exec"
	"strings"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/githooks"
	"github.com/tasklock/tasklock/internal/harness"
	"github.com/tasklock/tasklock/internal/repo"
)

// CheckInstalled is doctor's look at what is installed for git and coding agents.
func CheckInstalled(ctx context.Context, x *session.Findings) {
	checkGuard(ctx, x)
	checkAgents(ctx, x)
}

// checkAgents checks whether the installed coding agents have all that they need, in
// this worktree and the others.
func checkAgents(ctx context.Context, x *session.Findings) {
	tree, err := repo.TreeOf(x.Session.Dir)
	if err != nil {
		return
	}
	others := []string{}
	if tree.Git != "" {
		others = git.OtherWorktrees(ctx, tree)
	}
	for _, name := range harness.Installable() {
		in, err := projectOf(x.Session, name)
		if err != nil || !in.Present() {
			continue
		}
		again := x.Session.CommandLine("agents", "install", name)
		if plan, err := in.Check(ctx); err != nil {
			x.Fail("agents", again, unreadable(err))
			continue
		} else if missing := harness.Missing(plan); len(missing) > 0 {
			x.Warn("agents", again, "%s is set up, but not in %s", name, strings.Join(missing, ", "))
			continue
		}
		var without []string
		for _, other := range others {
			if !in.In(other).Present() {
				without = append(without, other)
			}
		}
		switch off := switchedOff(in.Setup); {
		case off != "":
			x.Warn("agents", "", "%s is set up, but %s switches all hooks off (disableAllHooks)", name, off)
		case !onPath("tasklock"):
			x.Warn("agents", "", "%s is set up, but its hooks do not find tasklock: it is not on the PATH", name)
		case len(without) > 0:
			x.Warn("agents", inFolder(without[0], again), "%s is set up here, but its hooks are not in %s", name, strings.Join(without, ", "))
		default:
			x.OK("agents", "%s is set up", name)
		}
	}
}

// switchedOff names the settings of Claude Code that keep it from running any
// hook; empty: none do.
func switchedOff(setup harness.Setup) string {
	if setup.Harness != "claude" {
		return ""
	}
	for _, name := range []string{".claude/settings.local.json", ".claude/settings.json", "~/.claude/settings.json"} {
		if harness.Setting(setup.Read(name), "disableAllHooks") == "true" {
			return name
		}
	}
	return ""
}

// checkGuard checks whether git calls the guard, in this worktree and the others.
func checkGuard(ctx context.Context, x *session.Findings) {
	all, err := githooks.States(ctx, x.Session.Dir, x.Session.Env)
	if err != nil || len(all) == 0 {
		return // no repository, which config and place speak of
	}
	dead := githooks.Dead(all)
	for _, s := range dead {
		x.Warn("guard", inFolder(s.Worktree, s.Next), "not live for %s in %s: %s", s.Hook, s.Worktree, s.Why)
	}
	switch n := len(all) / len(githooks.Names); {
	case len(dead) > 0:
	case !all[0].Live:
		x.OK("guard", "not installed: git accepts commits that touch paths of others (%s)", x.Session.CommandLine("guard", "install"))
	default:
		x.OK("guard", "live: git calls it before commits and pushes, in %s", term.Plural(n, "worktree"))
	}
}

func onPath(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
