package cli

import (
	"context"
	"os/exec"

	"github.com/tasklock/tasklock/internal/repo"
)

// allGuards are the states of the guard in this worktree, then in the others.
func (a *App) allGuards(ctx context.Context) ([]guardState, error) {
	tree, err := repo.TreeOf(a.Dir)
	if err != nil || tree.Git == "" {
		return nil, err
	}
	out, err := a.guardStates(ctx, tree.Top)
	for _, other := range otherWorktrees(ctx, tree) {
		if more, err := a.guardStates(ctx, other); err == nil {
			out = append(out, more...)
		}
	}
	return out, err
}

// deadOf are those that somebody installed and git does not call. A guard that
// stands in one worktree is wanted in all.
func deadOf(all []guardState) (dead []guardState) {
	wanted := false
	for _, s := range all {
		wanted = wanted || s.wanted || s.Live
	}
	for _, s := range all {
		if wanted && !s.Live {
			dead = append(dead, s)
		}
	}
	return dead
}

// deadGuards prints one line for each.
func (p *printer) deadGuards(dead []guardState) {
	for _, s := range dead {
		p.line("The guard is not live for %s in %s: %s.", s.Hook, s.Worktree, s.Why)
		if next := inFolder(s.Worktree, s.Next); next != "" {
			p.line("Next: %s", next)
		}
	}
}

// inFolder is a command for another folder; nothing stays nothing.
func inFolder(dir, command string) string {
	if command == "" {
		return ""
	}
	return "cd " + shellQuote(dir) + " && " + command
}

func onPath(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// guard tells whether git calls the guard, in this worktree and the others.
func (x *examination) guard(ctx context.Context) {
	all, err := x.app.allGuards(ctx)
	if err != nil || len(all) == 0 {
		return // no repository, which config and place speak of
	}
	dead := deadOf(all)
	for _, s := range dead {
		x.warn("guard", inFolder(s.Worktree, s.Next), "not live for %s in %s: %s", s.Hook, s.Worktree, s.Why)
	}
	switch n := len(all) / len(guarded); {
	case len(dead) > 0:
	case !all[0].Live:
		x.ok("guard", "not installed: git takes commits that touch what others have locked (%s)", x.app.commandLine("guard", "install"))
	default:
		x.ok("guard", "live: git calls it before commits and pushes, in %s", plural(n, "worktree"))
	}
}
