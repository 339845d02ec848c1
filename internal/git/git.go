// Package git asks git what only git knows: the worktrees of a repository and its
// changed, staged or pushed files.
package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/repo"
)

// delay is how long to wait for the rest of git's output after git has ended. It
// is long because a busy machine is slow; only a child that git left behind keeps
// the output open.
const delay = 10 * time.Second

// gentleDelay is the same for a gentle caller, and the time between TERM and KILL.
const gentleDelay = 2 * time.Second

// Run runs git in a folder and returns what it prints, without the last newline.
func Run(ctx context.Context, dir string, args ...string) (string, error) {
	return run(ctx, dir, args[0], args...)
}

// A Caller runs git in one folder and in one way.
type Caller struct {
	Dir    string
	Env    []string // nil: that of this process
	With   []string // settings for each command, "name=value"
	Gentle bool     // the end of the context is TERM, so that git removes its lock files
}

// Run runs git and returns what it prints, without the last newline. An error of git
// is an [*Error], beside what git printed before.
func (c Caller) Run(ctx context.Context, args ...string) (string, error) {
	var all []string
	for _, setting := range c.With {
		all = append(all, "-c", setting)
	}
	return c.run(ctx, args[0], append(all, args...)...)
}

// run returns nothing beside an error.
func run(ctx context.Context, dir, verb string, args ...string) (string, error) {
	out, err := Caller{Dir: dir}.run(ctx, verb, args...)
	if err != nil {
		return "", err
	}
	return out, nil
}

func (c Caller) run(ctx context.Context, verb string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.Dir, c.Env, delay
	if c.Gentle {
		cmd.WaitDelay = gentleDelay
		cmd.Cancel = func() error { return terminate(cmd.Process) }
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrWaitDelay) { // git succeeded, and ssh stays for the next connection
		err = nil
	}
	if err != nil {
		err = &Error{Verb: verb, Said: strings.TrimSpace(said.String()), Err: err}
	}
	return strings.TrimSuffix(string(out), "\n"), err
}

// terminate asks a process to end.
func terminate(p *os.Process) error {
	if p.Signal(syscall.SIGTERM) != nil { // Windows has no such signal
		return p.Kill()
	}
	return nil
}

// An Error is a command of git that did not succeed.
type Error struct {
	Verb string
	Said string // all that git wrote to stderr
	Err  error
}

// maxMessage bounds how many characters of git's own message an error repeats.
const maxMessage = 300

// Error is what git said last, in one line.
func (e *Error) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("git %s: %v", e.Verb, e.Err)
	}
	lines := strings.Split(e.Said, "\n")
	text := []rune(strings.TrimPrefix(lines[len(lines)-1], "fatal: "))
	if len(text) > maxMessage {
		text = append(text[:maxMessage-1], '…')
	}
	return fmt.Sprintf("git %s: %s", e.Verb, string(text))
}

func (e *Error) Unwrap() error { return e.Err }

// Worktrees returns the worktrees that git knows, the main one first, and the
// branch of each.
func Worktrees(ctx context.Context, dir string) (paths []string, branches map[string]string, err error) {
	out, err := Run(ctx, dir, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, nil, err
	}
	branches = map[string]string{}
	for line := range strings.SplitSeq(out, "\x00") {
		if path, ok := strings.CutPrefix(line, "worktree "); ok {
			paths = append(paths, repo.Canonical(path))
		} else if ref, ok := strings.CutPrefix(line, "branch refs/heads/"); ok && len(paths) > 0 {
			branches[paths[len(paths)-1]] = ref
		}
	}
	return paths, branches, nil
}

// OtherWorktrees returns the worktrees that have files, without the one of tree.
func OtherWorktrees(ctx context.Context, tree repo.Tree) []string {
	paths, _, err := Worktrees(ctx, tree.Top)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		return path == tree.Top || !repo.Exists(filepath.Join(path, ".git")) // bare, or gone
	})
}
