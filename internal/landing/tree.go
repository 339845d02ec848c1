package landing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/repo"
)

// noteFile says that the files of the worktree are not those of its branch.
const noteFile = "land.json"

// note is what a landing that is killed leaves to the next one.
type note struct {
	Branch string `json:"branch"`
	Old    string `json:"old"` // the branch's commit
	New    string `json:"new"` // the commit that the files have, or were about to get
}

func (w *work) writeNote(n note) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return host.WriteFile(w.file(noteFile), text, 0o644)
}

func (w *work) readNote() (n note, written time.Time, err error) {
	fi, err := os.Stat(w.file(noteFile))
	if err != nil {
		return n, written, err
	}
	text, err := os.ReadFile(w.file(noteFile))
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	return n, fi.ModTime(), err
}

func (w *work) dropNote() error {
	if err := os.Remove(w.file(noteFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// move gives the files of the worktree the contents of the head. HEAD is detached
// meanwhile, also if the files need not change: whatever the test does with git, the
// branch stays where it is until the push is done.
func (l *landing) move(ctx context.Context) error {
	n := note{l.state.Branch, l.state.Head, l.head}
	if err := l.clear(ctx, n); err != nil {
		return err
	}
	if err := l.writeNote(n); err != nil {
		return err
	}
	_, err := l.git.Run(ctx, "checkout", "--quiet", "--no-overwrite-ignore", "--no-recurse-submodules", "--detach", l.head, "--")
	if !l.isAt(ctx, l.head) {
		return refused(err)
	}
	if err != nil {
		l.note("a hook failed: %v", err) // git has done its part
	}
	changed, _, err := l.changes(ctx)
	if err == nil && len(changed) > 0 {
		return &NotReadyError{Code: "DIRTY_TREE", Why: "git shows files as changed right after it wrote them", Files: changed, Next: []string{"git", "status"}}
	}
	return err
}

// clear refuses to move over files that git does not know, ignored ones too: it would
// replace them, and the way back would remove them.
func (l *landing) clear(ctx context.Context, n note) error {
	added, err := l.added(ctx, n)
	if err != nil {
		return err
	}
	var files []string
	for _, name := range added {
		if fi, err := os.Lstat(l.path(name)); err == nil && !(fi.IsDir() && l.known(ctx, name)) {
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return nil
	}
	return &NotReadyError{
		Code: "FILES_IN_THE_WAY", Why: fmt.Sprintf("%s/%s has files that are here too and untracked", l.Remote, l.Onto), Files: files,
		Next: []string{"git", "status", "--ignored"},
	}
}

// known reports whether git knows all files of a folder: it can replace the folder, and
// make it again.
func (w *work) known(ctx context.Context, name string) bool {
	out, err := w.git.Run(ctx, "ls-files", "--others", "-z", "--", ":(top,literal)"+name)
	return err == nil && out == ""
}

// added are the files that the new commit has and the old one lacks, without
// submodules: those stay as they are. On a file system that ignores case, a name in
// another case is the same file.
func (w *work) added(ctx context.Context, n note) (names []string, err error) {
	out, err := w.git.Run(ctx, "diff", "--name-status", "--no-renames", "--ignore-submodules=all", "--diff-filter=AD", "-z", n.Old, n.New)
	if err != nil {
		return nil, err
	}
	fold, _ := w.git.Run(ctx, "config", "--bool", "core.ignoreCase")
	gone := map[string]bool{}
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") // status, name, status, name
	for i := 1; i < len(fields); i += 2 {
		if fields[i-1] == "D" && fold == "true" {
			gone[strings.ToLower(fields[i])] = true
		}
	}
	for i := 1; i < len(fields); i += 2 {
		if fields[i-1] == "A" && !gone[strings.ToLower(fields[i])] {
			names = append(names, fields[i])
		}
	}
	return names, nil
}

// refused is why git did not switch the files; it names them on lines of their own.
func refused(err error) error {
	var said *git.Error
	if !errors.As(err, &said) {
		return err
	}
	e := &NotReadyError{Code: "DIRTY_TREE", Next: []string{"git", "status"}}
	for line := range strings.Lines(said.Said) {
		if name, ok := strings.CutPrefix(line, "\t"); ok {
			e.Files = append(e.Files, strings.TrimSpace(name))
		} else if e.Why == "" {
			e.Why = "git checkout: " + strings.TrimSuffix(strings.TrimSpace(line), ":")
		}
	}
	return e
}

// back gives the worktree its branch and its files again. Changes of tracked files
// that were made meanwhile are kept in a commit.
func (l *landing) back(ctx context.Context) (saved string, err error) {
	n := note{l.state.Branch, l.state.Head, l.head}
	if changed, _, err := l.changes(ctx); err == nil && len(changed) > 0 && l.began {
		saved, _ = l.git.Run(ctx, "stash", "create", "tasklock land: what the test of "+l.head+" changed")
	}
	return saved, again(func() error { return l.restore(ctx, n) })
}

// restore undoes a move, also one that was cut short.
func (w *work) restore(ctx context.Context, n note) error {
	if err := w.writeNote(n); err != nil { // its time says when git began
		return err
	}
	if _, err := w.git.Run(ctx, "checkout", "--quiet", "--force", "--no-recurse-submodules", "--ignore-other-worktrees", n.Branch, "--"); err != nil && !w.isAt(ctx, n.Branch) {
		return fmt.Errorf("%w; to go back by hand: git checkout --force %s", err, n.Branch)
	}
	// If git did not get as far as its index, or the test changed that, git does not know
	// all files that it made.
	if err := w.removeAdded(ctx, n); err != nil {
		return err
	}
	return w.dropNote()
}

// removeAdded removes the files that only the new commit has, if git wrote them.
func (w *work) removeAdded(ctx context.Context, n note) error {
	added, err := w.added(ctx, n)
	for _, name := range added {
		if path := w.path(name); repo.Exists(path) && w.written(ctx, name, n.New) {
			_ = os.Remove(path)
		}
	}
	return err
}

func (w *work) path(name string) string { return filepath.Join(w.top, filepath.FromSlash(name)) }

// written reports whether a file is what git writes for one of some commits, or the
// beginning of it: git may have been killed while it wrote. git removes a file before it
// writes it anew, so one that is missing counts.
func (w *work) written(ctx context.Context, name string, commits ...string) bool {
	text, err := os.Readlink(w.path(name))
	if err != nil {
		var file []byte
		file, err = os.ReadFile(w.path(name))
		text = string(file)
	}
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return slices.ContainsFunc(commits, func(commit string) bool {
		whole, err := w.git.Run(ctx, "cat-file", "--filters", commit+":"+name)
		return err == nil && strings.HasPrefix(whole+"\n", text) // Run takes off one newline
	})
}

// isAt reports whether HEAD is a commit or a branch: a hook may fail after git has
// done its part.
func (w *work) isAt(ctx context.Context, name string) bool {
	commit, branch := w.where(ctx)
	return name == branch || branch == "" && name == commit
}

// where is the commit of HEAD, and its branch; empty: it is detached.
func (w *work) where(ctx context.Context) (commit, branch string) {
	commit, _ = w.git.Run(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	ref, err := w.git.Run(ctx, "symbolic-ref", "--quiet", "HEAD")
	if err == nil {
		branch = strings.TrimPrefix(ref, "refs/heads/")
	}
	return commit, branch
}

// finish gives the branch the commit that has landed. The files have it already.
func (l *landing) finish(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	n := note{l.state.Branch, l.state.Head, l.head}
	if err := l.writeNote(n); err != nil {
		return err
	}
	if err := again(func() error { return l.attach(ctx, n) }); err != nil { // the note stays: the next landing tries again
		l.note("the commits have landed, but %s did not move: %v; HEAD is detached at %s", n.Branch, err, n.New)
		return nil
	}
	return l.dropNote()
}

// again repeats a step that fails: a signal to our process group reaches git too.
func again(step func() error) (err error) {
	for range 3 {
		if err = step(); err == nil {
			return nil
		}
	}
	return err
}

// attach moves the branch from the old commit to the new one, where HEAD and the
// files are.
func (w *work) attach(ctx context.Context, n note) error {
	if _, err := w.git.Run(ctx, "update-ref", "-m", "tasklock land", "refs/heads/"+n.Branch, n.New, n.Old); err != nil && w.tipOf(ctx, n.Branch) != n.New {
		return err
	}
	_, err := w.git.Run(ctx, "symbolic-ref", "-m", "tasklock land", "HEAD", "refs/heads/"+n.Branch)
	return err
}

// tipOf is the commit of a local branch, empty if there is none.
func (w *work) tipOf(ctx context.Context, branch string) string {
	commit, _ := w.git.Run(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch)
	return commit
}

// recover finishes or undoes what a landing that was killed in this worktree left
// behind. If somebody has worked in it since, the note does not count any more.
func (l *landing) recover(ctx context.Context) error {
	n, written, err := l.readNote()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", l.file(noteFile), err)
	}
	l.breakLocks(n, written)
	commit, branch := l.where(ctx)
	tip := l.tipOf(ctx, n.Branch)
	switch away := branch == "" && commit == n.New; {
	case away && tip == n.New: // between the two steps of attach
		_, err = l.git.Run(ctx, "symbolic-ref", "-m", "tasklock land", "HEAD", "refs/heads/"+n.Branch)
	case away && tip == n.Old && l.contains(ctx, l.tip, n.New): // after the push
		err = l.attach(ctx, n)
	case tip == n.Old && (away || branch == n.Branch):
		if err := l.untouched(ctx, n); err != nil {
			return err
		}
		err = l.restore(ctx, n)
	default:
		return l.dropNote()
	}
	if err != nil {
		return err
	}
	l.state.Branch = n.Branch
	l.say(Event{Step: Recovered, From: n.New, To: n.Old})
	return l.dropNote()
}

// untouched refuses to undo if files have contents of neither commit: somebody, or
// the test, wrote them.
func (l *landing) untouched(ctx context.Context, n note) error {
	differ := map[string]int{}
	for _, commit := range []string{n.Old, n.New} {
		out, err := l.git.Run(ctx, "diff", "--name-only", "--no-renames", "--ignore-submodules=all", "-z", commit)
		if err != nil {
			return err
		}
		for _, name := range strings.FieldsFunc(out, func(r rune) bool { return r == 0 }) {
			differ[name]++
		}
	}
	var files []string
	for name, commits := range differ {
		if commits == 2 && !l.written(ctx, name, n.Old, n.New) {
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return nil
	}
	slices.Sort(files)
	return &NotReadyError{
		Code: "DIRTY_TREE", Why: fmt.Sprintf("a landing of %s was killed here, and these files were changed since", n.Branch), Files: files,
		Next: []string{"git", "stash"},
	}
}

// lockTime is how long after a note git may have made a lock file for the change that
// the note announces.
const lockTime = time.Minute

// breakLocks removes the lock files of a git that was killed with its landing: they
// appeared right after the note, and stay.
func (w *work) breakLocks(n note, written time.Time) {
	ofNote := func(path string) bool {
		fi, err := os.Stat(path)
		return err == nil && !fi.ModTime().Before(written.Add(-time.Second)) && fi.ModTime().Sub(written) < lockTime
	}
	left := slices.DeleteFunc([]string{
		filepath.Join(w.gitDir, "index.lock"), filepath.Join(w.gitDir, "HEAD.lock"),
		filepath.Join(w.common, "refs", "heads", filepath.FromSlash(n.Branch)+".lock"),
	}, func(path string) bool { return !ofNote(path) })
	if len(left) == 0 {
		return
	}
	time.Sleep(2 * time.Second) // a living git is done by then
	for _, path := range left {
		if ofNote(path) {
			_ = os.Remove(path)
		}
	}
}
