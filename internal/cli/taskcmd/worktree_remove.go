package taskcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/task"
)

func (o *verbOptions) removeFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.removeTree, "remove-worktree", false, "remove the worktree of the claim, unless it has unsaved work")
}

// emptied returns the worktrees of tasks that are about to be released, and
// refuses if one of them has something that would be lost or is still used.
func (o *verbOptions) emptied(ctx context.Context, s *session.Session, st *store.Store, refs []string) ([]string, error) {
	if !o.removeTree {
		return nil, nil
	}
	found, err := task.Find(ctx, st, refs)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, t := range found {
		if t.Worktree == "" || !repo.Exists(t.Worktree) || slices.Contains(paths, t.Worktree) {
			continue
		}
		if why := unsavedIn(ctx, s, t.Worktree); why != "" {
			return nil, &task.StateError{ID: t.ID, Status: t.Status, Why: fmt.Sprintf("its worktree %s %s; save it, or leave out --remove-worktree", t.Worktree, why)}
		}
		paths = append(paths, t.Worktree)
	}
	return paths, stillUsed(ctx, st, found, paths)
}

// stillUsed refuses a worktree in which other claimed tasks are worked on.
func stillUsed(ctx context.Context, st *store.Store, done []task.Task, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	out, err := task.List(ctx, st, task.ListRequest{Status: []task.Status{task.InProgress}})
	if err != nil {
		return err
	}
	for _, t := range out.Tasks {
		other := !slices.ContainsFunc(done, func(d task.Task) bool { return d.ID == t.ID })
		if other && slices.Contains(paths, t.Worktree) {
			return &task.StateError{ID: t.ID, Status: t.Status, Why: "is worked on in " + t.Worktree + " as well; leave out --remove-worktree"}
		}
	}
	return nil
}

// unsavedIn says what would be lost with a worktree, or nothing. Commits stay:
// its branch is kept.
func unsavedIn(ctx context.Context, s *session.Session, path string) string {
	known, branches, err := git.Worktrees(ctx, s.Dir)
	path = repo.Canonical(path)
	switch {
	case err != nil:
		return "cannot be read: " + err.Error()
	case !slices.Contains(known, path):
		return "is not a worktree of this repository"
	case known[0] == path:
		return "is the main worktree"
	}
	changed, err := git.Changed(ctx, path)
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	if len(changed) > 0 {
		return "has unsaved changes: " + term.Short(changed[0], 80)
	}
	if why := hiddenIn(ctx, path); why != "" {
		return why
	}
	own, err := git.Run(ctx, path, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	for _, f := range []string{"rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG"} {
		if repo.Exists(filepath.Join(own, f)) {
			return "is in the middle of something (" + f + ")"
		}
	}
	if branches[path] == "" { // commits that no branch has would be lost
		refs, err := git.Run(ctx, path, "for-each-ref", "--contains", "HEAD", "--count=1")
		if err != nil || strings.TrimSpace(refs) == "" {
			return "has commits that are on no branch"
		}
	}
	return ""
}

// hiddenIn says what git would remove silently: ignored files, which may be the only
// copy of somebody's settings or another repository, and files that it must not look at.
func hiddenIn(ctx context.Context, path string) string {
	ignored, err := git.Run(ctx, path, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--no-empty-directory")
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	if name, _, _ := strings.Cut(ignored, "\x00"); name != "" {
		return fmt.Sprintf("has files that git ignores: %s (git -C %s clean -fdX removes them)", term.Short(name, 80), term.ShellQuote(path))
	}
	tracked, err := git.Run(ctx, path, "ls-files", "-v", "-z")
	if err != nil {
		return "cannot be read: " + err.Error()
	}
	for line := range strings.SplitSeq(tracked, "\x00") { // "H name"; small letters and S: not looked at
		if len(line) > 2 && (line[0] >= 'a' || line[0] == 'S') && repo.Exists(filepath.Join(path, filepath.FromSlash(line[2:]))) {
			return "has a file whose changes git does not see: " + term.Short(line[2:], 80)
		}
	}
	return ""
}

// removeWorktrees lets git remove them: it looks once more, and refuses what
// has become dirty meanwhile.
func removeWorktrees(ctx context.Context, s *session.Session, paths []string) {
	tree, err := repo.TreeOf(s.Dir)
	for _, path := range paths {
		if s.DryRun {
			s.Note("Would remove the worktree %s.", path)
			continue
		}
		failed := err
		if failed == nil {
			_, failed = git.Run(ctx, tree.Home, "worktree", "remove", "--", path)
		}
		if failed != nil {
			s.Warn("the worktree %s is still there: %v", path, failed)
			continue
		}
		s.Note("Removed the worktree %s; its branch stays.", path)
	}
}
