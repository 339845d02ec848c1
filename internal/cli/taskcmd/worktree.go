package taskcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
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

// autoWorktree is --worktree without a path.
const autoWorktree = "auto"

// madeWorktree is the git worktree that belongs to a claim.
type madeWorktree struct {
	Path   string `json:"path"`
	Branch string `json:"branch"`
}

// worktreeFlag makes --worktree of a claim one that makes the worktree.
func (o *claimOptions) worktreeFlag(cmd *cobra.Command) {
	f := cmd.Flags().Lookup("worktree")
	f.NoOptDefVal = autoWorktree
	f.Usage = "make a git worktree for it, at `PATH` or next to the repository"
}

// place finds the place of the worktree, before anything is acquired.
func (o *claimOptions) place(ctx context.Context, s *session.Session, refs []string, least int) ([]string, error) {
	if o.Worktree == "" {
		return refs, nil
	}
	if at := slices.Index(refs, s.After("--worktree")); at >= 0 && refs[at] != "" && len(refs) > least {
		o.Worktree, refs = refs[at], slices.Delete(slices.Clone(refs), at, at+1)
	}
	if o.Attached(s) {
		if o.Worktree == autoWorktree {
			return nil, session.Usagef("--attach with --worktree needs a path, which is noted and not made")
		}
		return refs, nil
	}
	if _, err := git.Run(ctx, s.Dir, "rev-parse", "--verify", "--quiet", "HEAD^{commit}"); err != nil {
		if o.Worktree == autoWorktree {
			return nil, session.Usagef("--worktree: %s is not in a git repository with a commit", s.Dir)
		}
		return refs, nil // what others call a worktree is noted
	}
	o.makes = true
	if o.Worktree != autoWorktree && repo.Exists(repo.Absolute(s.Dir, o.Worktree)) {
		return nil, session.Usagef("--worktree: %s is there already; every claim gets a worktree of its own", o.Worktree)
	}
	return refs, nil
}

// work makes the worktree of a claim that was just granted and notes it. If git
// refuses, a new claim is released; one that its owner had before
// stays.
func (o *claimOptions) work(ctx context.Context, s *session.Session, st *store.Store, out task.ClaimResult) (*madeWorktree, error) {
	if !o.makes || s.DryRun || len(out.Tasks) == 0 {
		return nil, nil
	}
	first := out.Tasks[0]
	if first.Worktree != "" && repo.IsDir(first.Worktree) { // claimed before
		branch, _ := git.Run(ctx, first.Worktree, "rev-parse", "--abbrev-ref", "HEAD")
		return &madeWorktree{first.Worktree, branch}, nil
	}
	made, err := makeWorktree(ctx, s.Dir, o.Worktree, first.ID)
	if err != nil {
		return nil, giveBack(ctx, st, out, err)
	}
	for _, t := range out.Tasks {
		if _, err := task.SetWorktree(ctx, st, t.ID, out.Grant.Owner, made.Path); err != nil {
			return made, fmt.Errorf("the worktree is at %s, but that could not be noted: %w", made.Path, err)
		}
	}
	return made, nil
}

func giveBack(ctx context.Context, st *store.Store, out task.ClaimResult, cause error) error {
	for _, k := range out.Grant.Keys {
		if k.Reentrant {
			return fmt.Errorf("%w; the claim stays", cause)
		}
	}
	refs := term.Each(out.Tasks, taskID)
	_, err := task.ChangeStatus(context.WithoutCancel(ctx), st, task.StatusRequest{Verb: task.Unclaim, Tasks: refs, Owner: out.Grant.Owner, Reason: "its worktree could not be made"})
	if err != nil {
		return fmt.Errorf("%w; and the claim could not be released: %w", cause, err)
	}
	return fmt.Errorf("%w; the claim was released", cause)
}

// makeWorktree adds a worktree with a branch of its own. Making the folder
// decides who has it: git's own check and creation are two steps. What an
// earlier worker left behind is not touched, but its branch goes on if nobody
// has it checked out.
func makeWorktree(ctx context.Context, dir, path, id string) (*madeWorktree, error) {
	tree, err := repo.TreeOf(dir)
	if err != nil {
		return nil, err
	}
	name := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, id)
	auto := path == autoWorktree
	for n := 1; n < 100; n++ {
		suffix := ""
		if n > 1 {
			suffix = fmt.Sprintf("-%d", n)
		}
		place := repo.Absolute(dir, path)
		if auto {
			place = filepath.Join(filepath.Dir(tree.Home), filepath.Base(tree.Home)+"-"+name+suffix)
		}
		made := &madeWorktree{place, worktreeBranch(ctx, dir, name+suffix)}
		err := addWorktree(ctx, dir, made)
		if err == nil {
			return made, nil
		}
		if !errors.Is(err, errTaken) || !auto && repo.Exists(place) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no free place for a worktree of %s was found", id)
}

// worktreeBranch is the branch for a task. One below tasklock/, as earlier versions
// had it, goes on; but where the store is in git there is a branch "tasklock", and no
// repository can have both.
func worktreeBranch(ctx context.Context, dir, name string) string {
	if _, err := git.Run(ctx, dir, "rev-parse", "--verify", "--quiet", "refs/heads/tasklock/"+name); err == nil {
		return "tasklock/" + name
	}
	return "tasklock-" + name
}

// errTaken: the folder or the branch is somebody else's.
var errTaken = errors.New("is taken")

func addWorktree(ctx context.Context, dir string, w *madeWorktree) error {
	_, missing := git.Run(ctx, dir, "rev-parse", "--verify", "--quiet", "refs/heads/"+w.Branch)
	if missing == nil {
		if used, err := checkedOut(ctx, dir, w.Branch); err != nil || used {
			return errors.Join(fmt.Errorf("branch %s %w", w.Branch, errTaken), err)
		}
	}
	err := os.Mkdir(w.Path, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%s %w", w.Path, errTaken)
	case err != nil:
		return err
	}
	args := []string{"worktree", "add", "--quiet"}
	if missing == nil {
		args = append(args, "--", w.Path, w.Branch)
	} else {
		args = append(args, "-b", w.Branch, "--", w.Path, "HEAD")
	}
	if _, err := git.Run(ctx, dir, args...); err != nil {
		_ = os.Remove(w.Path) // only if it is empty
		return err
	}
	w.Path = repo.Canonical(w.Path)
	return nil
}

func checkedOut(ctx context.Context, dir, branch string) (bool, error) {
	_, branches, err := git.Worktrees(ctx, dir)
	return slices.Contains(slices.Collect(maps.Values(branches)), branch), err
}

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
