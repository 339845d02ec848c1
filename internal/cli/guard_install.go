package cli

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/githooks"
	"github.com/tasklock/tasklock/internal/repo"
)

func (a *App) guardInstall(ctx context.Context) error {
	changes, err := githooks.Install(ctx, a.Dir, a.DryRun)
	return a.guardAnswer(ctx, changes, err, true)
}

func (a *App) guardRemove(ctx context.Context) error {
	changes, err := githooks.Remove(ctx, a.Dir, a.DryRun)
	return a.guardAnswer(ctx, changes, err, false)
}

func (a *App) guardAnswer(ctx context.Context, done githooks.Changes, err error, install bool) error {
	if done.Outside != "" {
		a.note("Note: core.hooksPath is %s, outside this repository: the guard runs wherever it is used.", done.Outside)
	}
	if err != nil {
		return err
	}
	changes := done.Hooks
	var dead []githooks.State
	if install && !a.DryRun {
		all, _ := githooks.States(ctx, a.Dir, a.Env)
		dead = githooks.Dead(all)
	}
	return a.answer(map[string]any{"hooks": changes, "notLive": dead}, func(p *printer) {
		for _, c := range changes {
			a.guardLine(p, c)
		}
		if names := a.toCommit(changes); install && len(names) > 0 {
			p.line("Commit what is new, so that other clones and worktrees have it: git add %s", strings.Join(shellWordsOf(names), " "))
		}
		p.deadGuards(dead)
	})
}

// toCommit names the changed files that git can track.
func (a *App) toCommit(changes []githooks.Change) (names []string) {
	tree, err := repo.TreeOf(a.Dir)
	for _, c := range changes {
		if err != nil || c.Did == "unchanged" || repo.Within(tree.Git, c.File) || !repo.Within(tree.Top, c.File) {
			continue
		}
		if name, err := filepath.Rel(tree.Top, c.File); err == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (a *App) guardLine(p *printer, c githooks.Change) {
	switch c.Did {
	case "installed":
		if c.In {
			p.line("%s the guard into %s.", a.did("Put", "Would put"), c.File)
			break
		}
		p.line("%s %s.", a.did("Installed", "Would install"), c.File)
	case "updated":
		p.line("%s %s.", a.did("Updated", "Would update"), c.File)
	case "removed":
		if c.In {
			p.line("%s the guard out of %s.", a.did("Took", "Would take"), c.File)
			break
		}
		p.line("%s %s.", a.did("Removed", "Would remove"), c.File)
	case "unchanged":
		p.line("%s is there already.", c.File)
	case "absent":
		p.line("%s is not there.", c.File)
	case "foreign":
		p.line("%s is not ours, and stays.", c.File)
	}
	if c.Kept != "" && c.Did == "removed" {
		p.line("%s is %s again.", c.Kept, c.Hook)
	} else if c.Kept != "" {
		p.line("What was there runs after it, as %s.", c.Kept)
	}
	for _, file := range c.Orphans {
		p.line("%s %s, which nothing ran any more.", a.did("Removed", "Would remove"), file)
	}
}

// deadGuards prints one line for each.
func (p *printer) deadGuards(dead []githooks.State) {
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
