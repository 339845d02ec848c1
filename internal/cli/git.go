package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// gitDelay is how long to wait for the rest of git's output when git has ended:
// long, because a busy machine is slow and only a child that git left behind
// keeps it open.
const gitDelay = 10 * time.Second

// git runs git in a folder and returns what it prints, without the last
// newline.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.WaitDelay = dir, gitDelay
	out, err := cmd.Output()
	if err != nil {
		return "", gitError(args[0], err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// gitError is what git said, in one line.
func gitError(verb string, err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		lines := strings.Split(strings.TrimSpace(string(exit.Stderr)), "\n")
		return fmt.Errorf("git %s: %s", verb, short(strings.TrimPrefix(lines[len(lines)-1], "fatal: "), 300))
	}
	return fmt.Errorf("git %s: %w", verb, err)
}

// readAll reads at most limit bytes; more is an error.
func readAll(r io.Reader, limit int64) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("more than %d bytes of input", limit)
	}
	return string(b), err
}
