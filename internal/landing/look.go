package landing

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/repo"
)

// Place is a worktree, and the branch of a remote that its commits go to.
type Place struct {
	Dir     string
	Environ []string
	Remote  string // empty: origin
	Onto    string // empty: the remote's default branch as this clone knows it, else main
}

// State is what a landing starts from.
type State struct {
	Place
	Branch    string
	Head      string   // its commit
	Tip       string   // the commit of the remote's branch, empty if this clone has never seen it
	Commits   int      // how many of the branch Tip lacks
	Untracked []string // files that will not land
	Busy      bool     // another landing works in this worktree, or died in it; then only Place is known
}

// Look checks whether the branch of a folder can land, without asking the remote.
func Look(ctx context.Context, p Place) (State, error) {
	w, err := open(ctx, p)
	if err != nil {
		return State{}, err
	}
	if w.busy() {
		return State{Place: w.Place, Busy: true}, nil
	}
	tip, _ := w.git.Run(ctx, "rev-parse", "--verify", "--quiet", "refs/remotes/"+w.Remote+"/"+w.Onto+"^{commit}")
	return w.look(ctx, tip)
}

// insideEnv names the worktree to all that a landing starts: a landing in there would
// wait for itself.
const insideEnv = "TASKLOCK_LANDING"

// work is the worktree of a landing.
type work struct {
	Place
	git    git.Caller
	top    string // of the worktree
	gitDir string // git's folder of this worktree
	common string // git's folder of all worktrees
}

// open finds the worktree and the names in a Place.
func open(ctx context.Context, p Place) (work, error) {
	w := work{Place: p, git: caller(p.Dir, p.Environ)}
	out, err := w.git.Run(ctx, "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir")
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) != 3 {
		return w, &repo.OutsideError{Path: p.Dir, Why: fmt.Sprintf("is in no worktree of git: %v", err)}
	}
	w.top, w.gitDir, w.common = lines[0], lines[1], lines[2]
	if slices.Contains(p.Environ, insideEnv+"="+w.top) {
		return w, &NotReadyError{Code: "IN_PROGRESS", Why: "this is part of a landing in this worktree: its test, or a hook", Next: []string{"git", "status"}}
	}
	w.Environ = append(slices.Clip(p.Environ), insideEnv+"="+w.top)
	w.git.Env = append(w.git.Env, insideEnv+"="+w.top)
	w.git.Env = append(w.git.Env, batchSSH(ctx, w.git)...)
	w.Remote = cmp.Or(w.Remote, "origin")
	known, err := w.git.Run(ctx, "remote")
	if err != nil {
		return w, err
	}
	if !slices.Contains(strings.Fields(known), w.Remote) {
		return w, &NotFoundError{"remote", w.Remote, fmt.Sprintf("this clone has no remote %q", w.Remote), []string{"git", "remote", "-v"}}
	}
	if w.Onto == "" {
		w.Onto = w.defaultBranch(ctx)
	}
	if _, err := w.git.Run(ctx, "check-ref-format", "refs/heads/"+w.Onto); err != nil || strings.HasPrefix(w.Onto, "-") {
		return w, &NotFoundError{"branch", w.Onto, fmt.Sprintf("%q is not the name of a branch", w.Onto), []string{"git", "branch", "--remotes"}}
	}
	return w, nil
}

func (w *work) defaultBranch(ctx context.Context) string {
	prefix := "refs/remotes/" + w.Remote + "/"
	ref, err := w.git.Run(ctx, "symbolic-ref", "--quiet", prefix+"HEAD")
	if name, ok := strings.CutPrefix(ref, prefix); ok && err == nil {
		return name
	}
	return "main"
}

func (w *work) makeFolder() error { return os.MkdirAll(filepath.Dir(w.file("x")), 0o755) }

// busy reports whether another landing works in this worktree, or died in it.
func (w *work) busy() bool {
	if repo.Exists(w.file(noteFile)) {
		return true
	}
	if !repo.Exists(w.file("land.lock")) {
		return false
	}
	gate := flock.New(w.file("land.lock"))
	free, err := gate.TryLock()
	if err == nil && free {
		_ = gate.Unlock()
	}
	return err == nil && !free
}

// look checks whether the branch can land on top of a commit; empty: unknown yet.
func (w *work) look(ctx context.Context, tip string) (State, error) {
	s := State{Place: w.Place, Tip: tip}
	if err := w.inProgress(); err != nil {
		return s, err
	}
	ref, err := w.git.Run(ctx, "symbolic-ref", "--quiet", "HEAD")
	branch, ok := strings.CutPrefix(ref, "refs/heads/")
	if err != nil || !ok {
		return s, &NotReadyError{Code: "NO_BRANCH", Why: "HEAD is detached: only a branch can land", Next: []string{"git", "switch", "-c", "NAME"}}
	}
	s.Branch = branch
	if s.Head, err = w.git.Run(ctx, "rev-parse", "--verify", "--quiet", ref+"^{commit}"); err != nil {
		return s, &NotReadyError{Code: "NO_COMMIT", Why: branch + " has no commit yet", Next: []string{"git", "status"}}
	}
	changed, untracked, err := w.changes(ctx)
	switch {
	case err != nil:
		return s, err
	case len(changed) > 0:
		return s, &NotReadyError{Code: "DIRTY_TREE", Why: "uncommitted changes", Files: changed, Next: []string{"git", "status"}}
	}
	s.Untracked = untracked
	if tip == "" {
		return s, nil
	}
	return s, w.compare(ctx, &s)
}

// compare counts the commits that the remote lacks, and refuses what cannot be rebased.
func (w *work) compare(ctx context.Context, s *State) error {
	onto := w.Remote + "/" + w.Onto
	if _, err := w.git.Run(ctx, "merge-base", s.Tip, s.Head); err != nil {
		return &NotReadyError{
			Code: "NO_COMMON_COMMIT", Why: fmt.Sprintf("%s and %s have no commit in common; is this clone shallow?", s.Branch, onto),
			Next: []string{"git", "fetch", "--unshallow", w.Remote},
		}
	}
	count, err := w.git.Run(ctx, "rev-list", "--count", s.Tip+".."+s.Head)
	if err != nil {
		return err
	}
	if s.Commits, err = strconv.Atoi(count); err != nil {
		return err
	}
	merges, err := w.git.Run(ctx, "rev-list", "--merges", "--abbrev-commit", "--max-count=10", s.Tip+".."+s.Head)
	if err == nil && merges != "" {
		return &NotReadyError{
			Code: "MERGE_COMMITS", Why: fmt.Sprintf("%s has merge commits that %s lacks (%s); land keeps history straight", s.Branch, onto, some(strings.Fields(merges))),
			Next: []string{"git", "rebase", onto},
		}
	}
	return err
}

// operations are what git can be in the middle of, by their files.
var operations = [][2]string{
	{"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"MERGE_HEAD", "merge"},
	{"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"}, {"BISECT_LOG", "bisect"},
}

func (w *work) inProgress() error {
	for _, o := range operations {
		if repo.Exists(filepath.Join(w.gitDir, o[0])) {
			return &NotReadyError{Code: "IN_PROGRESS", Why: "git is in the middle of a " + o[1] + " in this worktree", Next: []string{"git", "status"}}
		}
	}
	return nil
}

// changes are the tracked files that differ from HEAD, and the untracked ones, as git
// rebase sees them: it looks at no submodule.
func (w *work) changes(ctx context.Context) (tracked, untracked []string, err error) {
	out, err := w.git.Run(ctx, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=normal", "--ignore-submodules=all")
	if err != nil {
		return nil, nil, err
	}
	for field := range strings.SplitSeq(out, "\x00") {
		if len(field) < 4 {
			continue
		}
		if name := field[3:]; field[:2] == "??" {
			untracked = append(untracked, name)
		} else {
			tracked = append(tracked, name)
		}
	}
	return tracked, untracked, nil
}
