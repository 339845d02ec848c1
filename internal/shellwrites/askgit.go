package shellwrites

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"time"
)

// AskGit is a [View.Git] that runs git, each time for so long at most, and for ten
// times as long together. It runs no hooks, no monitor of the file system and no other program for diffs, takes no
// lock, and asks no other machine.
func AskGit(ctx context.Context, limit time.Duration) func(dir string, args ...string) (string, error) {
	left := 10 * limit
	return func(dir string, args ...string) (string, error) {
		if left <= 0 {
			return "", ErrSlow
		}
		began := time.Now()
		defer func() { left -= time.Since(began) }()
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		args = append([]string{"--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull, "-c", "submodule.recurse=false"}, args...)
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir, cmd.WaitDelay = dir, limit
		cmd.Env = append(os.Environ(), "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_EXTERNAL_DIFF=", "GIT_PAGER=cat")
		var out bytes.Buffer
		cmd.Stdout = &out
		err := cmd.Run()
		if ctx.Err() != nil || errors.Is(err, exec.ErrWaitDelay) {
			return "", ErrSlow
		}
		return out.String(), err
	}
}
