package landing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/host"
)

// alone are the settings of the worktree in which the rebase runs: no files, no
// hooks, no memory of earlier conflicts, and no branch but ours moves.
var alone = []string{
	"core.sparseCheckout=true", "core.sparseCheckoutCone=false", "index.sparse=false", "core.hooksPath=" + os.DevNull, "core.fsmonitor=false",
	"rerere.enabled=false", "rebase.autoStash=false", "rebase.autoSquash=false", "rebase.updateRefs=false", "rebase.rebaseMerges=false",
	"rebase.stat=false", "submodule.recurse=false", "core.bare=false", "gc.auto=0", "maintenance.auto=false",
}

// bench is the worktree where the rebase runs.
func (w *work) bench() git.Caller {
	g := w.git
	g.Dir = w.file("landing/tree")
	g.With = append(alone, g.With...)
	g.Env = append(g.Env[:len(g.Env):len(g.Env)], "GIT_DIR="+w.file("landing/git"), "GIT_WORK_TREE="+g.Dir)
	return g
}

// rebase puts the branch's commits on top of the remote's. If there are none to land,
// the head is empty.
func (l *landing) rebase(ctx context.Context) error {
	l.head = ""
	switch {
	case l.state.Commits == 0:
		return nil
	case l.contains(ctx, l.state.Head, l.tip):
		l.head = l.state.Head
	default:
		head, err := l.replay(ctx)
		if err != nil {
			return err
		}
		l.head = head
	}
	left, err := l.git.Run(ctx, "rev-list", "--count", l.tip+".."+l.head)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(left, &l.state.Commits); err != nil {
		return err
	}
	l.say(Event{Step: Rebased, From: l.state.Head, To: l.head, Commits: l.state.Commits})
	return nil
}

// replay rebases the branch on the tip, beside the user's files.
func (l *landing) replay(ctx context.Context) (head string, err error) {
	defer func() { _ = l.removeBench() }()
	if err := l.makeBench(ctx); err != nil {
		return "", err
	}
	g := l.bench()
	if _, err := g.Run(ctx, "rebase", "--quiet", "--no-fork-point", "--empty=drop", "--merge", l.tip); err != nil {
		if ctx.Err() != nil {
			return "", err
		}
		return "", l.conflict(ctx, err)
	}
	return g.Run(ctx, "rev-parse", "--verify", "HEAD^{commit}")
}

// makeBench makes a worktree with the branch's commit and without files. It shares
// objects, branches and settings with the repository, which does not know of it: a
// worktree of "git worktree add" that is killed half-made breaks every fetch.
func (l *landing) makeBench(ctx context.Context) error {
	if err := l.removeBench(); err != nil {
		return err
	}
	own, _ := os.ReadFile(filepath.Join(l.gitDir, "config.worktree")) // settings of the user's worktree: a name, for example
	for name, text := range map[string]string{
		"git/commondir": l.common, "git/HEAD": l.state.Head, "git/info/sparse-checkout": "/.tasklock-nothing", "tree/.keep": "",
		"git/config.worktree": string(own),
	} {
		if err := host.WriteFile(l.file("landing/"+name), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	_, err := l.bench().Run(ctx, "read-tree", "-m", "-u", "HEAD")
	return err
}

// removeBench removes the worktree of the rebase, if there is one.
func (l *landing) removeBench() error { return os.RemoveAll(l.file("landing")) }

// conflict says which files conflict, and who touched them; if none does, what git said.
func (l *landing) conflict(ctx context.Context, why error) error {
	g, onto := l.bench(), l.Remote+"/"+l.Onto
	out, err := g.Run(ctx, "diff", "--name-only", "--diff-filter=U", "-z")
	names := strings.FieldsFunc(out, func(r rune) bool { return r == 0 })
	if err != nil || len(names) == 0 {
		return &NotReadyError{Code: "REBASE_FAILED", Why: rebaseWords(why) + "; nothing was changed", Next: []string{"git", "rebase", onto}}
	}
	e := &ConflictError{Branch: l.state.Branch, Onto: onto, Next: []string{"git", "rebase", onto}}
	if at := commits(ctx, g, "REBASE_HEAD", "--max-count=1"); len(at) > 0 {
		e.Commit = at[0]
	}
	base, _ := l.git.Run(ctx, "merge-base", l.tip, l.state.Head)
	for _, name := range names {
		e.Files = append(e.Files, ConflictFile{
			File:   name,
			Ours:   commits(ctx, l.git, base+".."+l.state.Head, "--max-count=5", "--", ":(top,literal)"+name),
			Theirs: commits(ctx, l.git, base+".."+l.tip, "--max-count=5", "--", ":(top,literal)"+name),
		})
	}
	return e
}

// rebaseWords is all that git said: its last line alone is a hint.
func rebaseWords(err error) string {
	var said *git.Error
	if !errors.As(err, &said) {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(said.Said) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "hint:") {
			lines = append(lines, line)
		}
	}
	const most = 6
	return "git rebase: " + strings.Join(lines[:min(len(lines), most)], "; ")
}

// commits lists some.
func commits(ctx context.Context, g git.Caller, revs string, more ...string) (list []Commit) {
	out, err := g.Run(ctx, append([]string{"log", "--no-show-signature", "-z", "--format=%h%x1f%s%x1f%an", revs}, more...)...)
	if err != nil {
		return nil
	}
	for line := range strings.SplitSeq(out, "\x00") {
		if f := strings.Split(line, "\x1f"); len(f) == 3 {
			list = append(list, Commit{f[0], f[1], f[2]})
		}
	}
	return list
}
