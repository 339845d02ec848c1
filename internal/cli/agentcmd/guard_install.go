package agentcmd

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/githooks"
	"github.com/tasklock/tasklock/internal/repo"
)

func guardInstall(ctx context.Context, s *session.Session) error {
	changes, err := githooks.Install(ctx, s.Dir, s.DryRun)
	return guardAnswer(ctx, s, changes, err, true)
}

func guardRemove(ctx context.Context, s *session.Session) error {
	changes, err := githooks.Remove(ctx, s.Dir, s.DryRun)
	return guardAnswer(ctx, s, changes, err, false)
}

func guardAnswer(ctx context.Context, s *session.Session, done githooks.Changes, err error, install bool) error {
	if done.Outside != "" {
		s.Note("Note: core.hooksPath is %s, outside this repository: the guard runs wherever it is used.", done.Outside)
	}
	if err != nil {
		return err
	}
	changes := done.Hooks
	var dead []githooks.State
	if install && !s.DryRun {
		all, _ := githooks.States(ctx, s.Dir, s.Env)
		dead = githooks.Dead(all)
	}
	return s.Answer(map[string]any{"hooks": changes, "notLive": dead}, func(p *term.Printer) {
		for _, c := range changes {
			guardLine(p, c)
		}
		if names := toCommit(s, changes); install && len(names) > 0 {
			p.Line("Commit what is new, so that other clones and worktrees have it: git add %s", strings.Join(shellWordsOf(names), " "))
		}
		printDeadGuards(p, dead)
	})
}

// toCommit names the changed files that git can track.
func toCommit(s *session.Session, changes []githooks.Change) (names []string) {
	tree, err := repo.TreeOf(s.Dir)
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

func guardLine(p *term.Printer, c githooks.Change) {
	switch c.Did {
	case "installed":
		if c.In {
			p.Line("%s the guard into %s.", p.Did("Put", "Would put"), c.File)
			break
		}
		p.Line("%s %s.", p.Did("Installed", "Would install"), c.File)
	case "updated":
		p.Line("%s %s.", p.Did("Updated", "Would update"), c.File)
	case "removed":
		if c.In {
			p.Line("%s the guard out of %s.", p.Did("Took", "Would take"), c.File)
			break
		}
		p.Line("%s %s.", p.Did("Removed", "Would remove"), c.File)
	case "unchanged":
		p.Line("%s is there already.", c.File)
	case "absent":
		p.Line("%s is not there.", c.File)
	case "foreign":
		p.Line("%s is not tasklock's, and stays.", c.File)
	}
	if c.Kept != "" && c.Did == "removed" {
		p.Line("%s is %s again.", c.Kept, c.Hook)
	} else if c.Kept != "" {
		p.Line("The former hook runs after it, as %s.", c.Kept)
	}
	for _, file := range c.Orphans {
		p.Line("%s %s, which nothing ran any more.", p.Did("Removed", "Would remove"), file)
	}
}

// printDeadGuards prints one line for each.
func printDeadGuards(p *term.Printer, dead []githooks.State) {
	for _, s := range dead {
		p.Line("The guard is not live for %s in %s: %s.", s.Hook, s.Worktree, s.Why)
		if next := inFolder(s.Worktree, s.Next); next != "" {
			p.Line("Next: %s", next)
		}
	}
}

// inFolder is a command for another folder; nothing stays nothing.
func inFolder(dir, command string) string {
	if command == "" {
		return ""
	}
	return "cd " + term.ShellQuote(dir) + " && " + command
}
