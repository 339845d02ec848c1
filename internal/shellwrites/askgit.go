package shellwrites

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// AskGit is a [View.Git] that runs git, each time for at most limit, and for ten
// times limit together. Whatever the repository's configuration says, git runs no
// other program for that (no hook, filter, monitor of the file system, program for
// diffs or signatures), takes no lock, and asks no other machine: a person has not
// yet allowed the command that is judged.
func AskGit(ctx context.Context, limit time.Duration) func(dir string, args ...string) (string, error) {
	left := 10 * limit
	run := func(dir string, args ...string) (string, error) {
		if left <= 0 {
			return "", ErrSlow
		}
		began := time.Now()
		defer func() { left -= time.Since(began) }()
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		cmd := exec.CommandContext(ctx, "git", slices.Concat(harmless, args)...)
		cmd.Dir, cmd.WaitDelay = dir, limit
		cmd.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0", "GIT_EXTERNAL_DIFF=", "GIT_PAGER=cat")
		var out bytes.Buffer
		cmd.Stdout = &out
		err := cmd.Run()
		if ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay) {
			return "", ErrSlow
		}
		return out.String(), err
	}
	filters := map[string][]string{}
	return func(dir string, args ...string) (string, error) {
		if !slices.Contains(comparing, args[0]) {
			return run(dir, args...)
		}
		off, ok := filters[dir]
		if !ok {
			names, err := run(dir, "config", "--name-only", "-z", "--get-regexp", `^filter\.`)
			if errors.Is(err, ErrSlow) {
				return "", err
			}
			off = withoutFilters(names)
			filters[dir] = off
		}
		if off == nil {
			return "", ErrSlow
		}
		return run(dir, append(slices.Clip(off), args...)...)
	}
}

// harmless are settings under which git runs nothing that the repository names.
var harmless = []string{
	"--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull,
	"-c", "submodule.recurse=false", "-c", "diff.ignoreSubmodules=dirty", "-c", "log.showSignature=false",
}

// comparing are the commands of git that look into the files of the worktree, which
// it does through the repository's filters.
var comparing = []string{"diff", "ls-files"}

// withoutFilters switches off the filters of a list of settings; nil: that cannot be.
func withoutFilters(names string) []string {
	out := []string{}
	for name := range strings.SplitSeq(names, "\x00") {
		driver := name[:max(0, strings.LastIndexByte(name, '.'))]
		switch {
		case driver == "" || slices.Contains(out, driver+".clean="):
		case strings.Contains(driver, "="): // -c would end the name there
			return nil
		default:
			out = append(out, "-c", driver+".clean=", "-c", driver+".process=", "-c", driver+".required=false")
		}
	}
	return out
}
