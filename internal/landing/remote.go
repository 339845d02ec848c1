package landing

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/git"
)

// fetchedRef holds what was fetched. It belongs to this worktree, so another fetch
// cannot replace it meanwhile, as it would FETCH_HEAD.
const fetchedRef = "refs/worktree/tasklock/onto"

// fetch asks the remote for its branch and returns the commit.
func (w *work) fetch(ctx context.Context, limit time.Duration) (string, error) {
	net, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	g := w.git
	g.With = append(g.With[:len(g.With):len(g.With)], "gc.auto=0", "maintenance.auto=false", "fetch.prune=false")
	_, err := g.Run(net, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", w.Remote, "+refs/heads/"+w.Onto+":"+fetchedRef)
	var said *git.Error
	switch {
	case errors.As(err, &said) && strings.Contains(said.Said, "couldn't find remote ref"):
		return "", &NotFoundError{
			"branch", w.Onto, fmt.Sprintf("%s has no branch %q; if it is to have one, push it once by hand", w.Remote, w.Onto),
			[]string{"git", "push", w.Remote, "HEAD:refs/heads/" + w.Onto},
		}
	case err != nil && net.Err() != nil && ctx.Err() == nil:
		return "", &RemoteError{Remote: w.Remote, Step: "fetch", Err: fmt.Errorf("git fetch took longer than %s", limit)}
	case err != nil:
		return "", &RemoteError{Remote: w.Remote, Step: "fetch", Err: withCause(err)}
	}
	return w.git.Run(ctx, "rev-parse", "--verify", "--quiet", fetchedRef+"^{commit}")
}

// push asks once more whether the lock is held, and pushes. again: the remote moved
// since it was fetched. What became of a failed push is decided by looking: servers
// word it in many ways, and a reply may be lost.
func (l *landing) push(ctx context.Context) (again bool, err error) {
	if l.Held != nil {
		if err := l.Held(ctx); err != nil {
			return false, err
		}
	}
	net, cancel := context.WithTimeout(ctx, l.NetTime)
	defer cancel()
	out, err := l.git.Run(net, "push", "--porcelain", l.Remote, l.head+":refs/heads/"+l.Onto)
	if err == nil {
		l.say(Event{Step: Pushed, From: l.tip, To: l.head, Commits: l.state.Commits})
		return false, nil
	}
	if ctx.Err() != nil {
		l.note("the push was interrupted, and may have arrived; land again to find out")
		return false, cause(ctx, err)
	}
	now, unseen := l.fetch(ctx, l.NetTime)
	switch {
	case unseen != nil:
		return false, &RemoteError{Remote: l.Remote, Step: "push", Unknown: true, Err: withCause(err)}
	case l.contains(ctx, now, l.head):
		l.say(Event{Step: Pushed, From: l.tip, To: l.head, Commits: l.state.Commits})
		return false, nil
	case now != l.tip && l.result.Attempts < attempts:
		l.tip = now
		return true, nil
	case now != l.tip:
		return false, &NotReadyError{
			Code: "REMOTE_MOVES", Why: fmt.Sprintf("somebody pushed to %s %s without tasklock land during each of %d tests", l.Remote, l.Onto, attempts),
			Next: []string{"tasklock", "guard", "install", "--require", "--branch", l.Onto},
		}
	case net.Err() != nil:
		return false, l.notYet(fmt.Errorf("git push took longer than %s", l.NetTime))
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() != 1 { // 1: git heard a refusal
		return false, l.notYet(withCause(err))
	}
	return false, &PushError{l.Remote, l.Onto, refusal(out, err)}
}

// notYet is the error of a push that ended without an answer: the remote does not
// have the commits, and may still be about to take them.
func (l *landing) notYet(err error) error {
	return &RemoteError{Remote: l.Remote, Step: "push", Unknown: true, Err: fmt.Errorf("%w; %s/%s has not moved so far", err, l.Remote, l.Onto)}
}

// withCause makes an error of git say why: after the reason, and an empty line, git
// advises to check the access rights, and [git.Error] repeats only the last line.
func withCause(err error) error {
	var said *git.Error
	if errors.As(err, &said) {
		why, _, _ := strings.Cut(said.Said, "\n\n")
		return &git.Error{Verb: said.Verb, Said: strings.ReplaceAll(why, "\n", "; "), Err: said.Err}
	}
	return err
}

// contains reports whether a commit is in the history of another.
func (w *work) contains(ctx context.Context, in, commit string) bool {
	_, err := w.git.Run(ctx, "merge-base", "--is-ancestor", commit, in)
	return err == nil
}

// refusal is what the remote or a hook said about a push, in one line.
func refusal(out string, err error) string {
	var words []string
	for line := range strings.Lines(out) { // "!	from:to	[remote rejected] (why)"
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 3 && f[0] == "!" {
			words = append(words, f[2])
		}
	}
	var said *git.Error
	if errors.As(err, &said) {
		for line := range strings.Lines(said.Said) {
			line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "remote:"))
			if line != "" && !strings.HasPrefix(line, "hint:") && !strings.HasPrefix(line, "error: failed to push") && !strings.HasPrefix(line, "To ") {
				words = append(words, line)
			}
		}
	}
	const most = 12
	if len(words) == 0 {
		return err.Error()
	}
	return strings.Join(words[:min(len(words), most)], "; ")
}
