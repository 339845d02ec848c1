// Package git asks git what only git knows: the worktrees of a repository and its
// changed, staged or pushed files.
package git

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/repo"
)

// delay is how long to wait for the rest of git's output after git has ended. It
// is long because a busy machine is slow; only a child that git left behind keeps
// the output open.
const delay = 10 * time.Second

// Run runs git in a folder and returns what it prints, without the last newline.
func Run(ctx context.Context, dir string, args ...string) (string, error) {
	return run(ctx, dir, args[0], args...)
}

func run(ctx context.Context, dir, verb string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.WaitDelay = dir, delay
	out, err := cmd.Output()
	if err != nil {
		return "", failure(verb, err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// maxMessage bounds how many characters of git's own message an error repeats.
const maxMessage = 300

// failure is what git said, in one line.
func failure(verb string, err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) || len(exit.Stderr) == 0 {
		return fmt.Errorf("git %s: %w", verb, err)
	}
	lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
	text := []rune(strings.TrimPrefix(lines[len(lines)-1], "fatal: "))
	if len(text) > maxMessage {
		text = append(text[:maxMessage-1], '…')
	}
	return fmt.Errorf("git %s: %s", verb, string(text))
}

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
