package gitstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/tasklock/tasklock/store/driver"
)

// How much git may print, and how much it may fetch.
const (
	maxOutput = 64 << 10
	maxFetch  = 256 << 20
)

// settings go before every git command. They override what a user's
// configuration could add and a commit here must not have.
var settings = []string{
	"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "core.logAllRefUpdates=false",
	"gc.auto=0", "maintenance.auto=false",
	"transfer.fsckObjects=true", "fetch.fsckObjects=true", "fetch.unpackLimit=100", "transfer.unpackLimit=100",
	"fetch.writeCommitGraph=false", "fetch.recurseSubmodules=false", "fetch.prune=false", "fetch.showForcedUpdates=false",
	"push.gpgSign=false", "push.followTags=false", "push.recurseSubmodules=no", "push.pushOption=", "push.negotiate=false",
	"pack.threads=1", "advice.pushUpdateRejected=false", "color.ui=false",
}

// fromUser are the git variables that say how the user's git reaches a server.
// All others belong to the repository of the current folder.
var fromUser = []string{
	"GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_EXEC_PATH",
	"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_COUNT",
}

var fromUserPrefix = []string{"GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_SSL_", "GIT_HTTP_"}

// git runs git in a repository of our own.
type git struct {
	path    string // of the program
	dir     string // GIT_DIR; "" in the user's own repository
	env     []string
	timeout time.Duration // of a call: see patience
	secrets []string      // never shown
	limit   int64         // bytes that one command may bring
	session bool          // the remote is on another machine
}

var errTooMuch = errors.New("the server sends more than a store can hold")

func newGit(dir string, timeout time.Duration) (*git, error) {
	path, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("%w: the program git is needed and not installed: %w", driver.ErrUnsafe, err)
	}
	g := &git{path: path, dir: dir, timeout: timeout, limit: maxFetch}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		ofUser := slices.Contains(fromUser, name) ||
			slices.ContainsFunc(fromUserPrefix, func(p string) bool { return strings.HasPrefix(name, p) })
		if ofUser || !strings.HasPrefix(name, "GIT_") && name != "LC_ALL" && name != "LANGUAGE" {
			g.env = append(g.env, v)
		}
	}
	// git asks nobody. A program that the user names for git alone (GIT_ASKPASS,
	// core.askPass) should answer on its own; SSH_ASKPASS opens a window on most
	// desktops. It is empty and not absent, because ssh has a default for that.
	g.env = append(g.env, "LC_ALL=C", "LANGUAGE=", "GIT_TERMINAL_PROMPT=0", "GCM_INTERACTIVE=never",
		"SSH_ASKPASS=", "SSH_ASKPASS_REQUIRE=never",
		"GIT_ALLOW_PROTOCOL=file:ssh:http:https", "GIT_OPTIONAL_LOCKS=0")
	if dir != "" {
		g.env = append(g.env, "GIT_DIR="+dir)
	}
	return g, nil
}

// configure adds one setting through the environment, where no other user of
// the machine can see it.
func (g *git) configure(key, value string) {
	n := 0
	for _, v := range g.env {
		if count, ok := strings.CutPrefix(v, "GIT_CONFIG_COUNT="); ok {
			n, _ = strconv.Atoi(count)
		}
	}
	g.env = append(g.env, fmt.Sprintf("GIT_CONFIG_COUNT=%d", n+1),
		fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, value))
	g.secrets = append(g.secrets, value)
}

func (g *git) command(args ...string) *exec.Cmd {
	var all []string
	for _, s := range settings {
		all = append(all, "-c", s)
	}
	cmd := exec.Command(g.path, append(all, args...)...)
	cmd.Env = g.env
	if g.dir != "" {
		cmd.Dir = filepath.Dir(g.dir) // outside the user's repository
	}
	cmd.WaitDelay = 300 * time.Millisecond // ssh may leave a helper behind that keeps our pipes open
	separate(cmd, g.session)
	return cmd
}

// A gitError is a command of git that did not succeed.
type gitError struct {
	what    string // the command
	text    string // what it said, cleaned and cut
	denied  bool   // it said that access is denied
	cause   error
	timeout time.Duration // of the call, if that ended it
}

func (e *gitError) Error() string {
	switch {
	case e.timeout > 0 && e.text != "":
		return fmt.Sprintf("git %s: no answer within %v%s; it said: %s", e.what, e.timeout, moreTime, e.text)
	case e.timeout > 0:
		return fmt.Sprintf("git %s: no answer within %v%s", e.what, e.timeout, moreTime)
	case e.text != "":
		return fmt.Sprintf("git %s: %s", e.what, e.text)
	}
	return fmt.Sprintf("git %s: %v", e.what, e.cause)
}

func (e *gitError) Unwrap() error { return e.cause }

// run runs one command to its end. It ends the command, with all that it started,
// when ctx ends, the time is over, or it fetches more than a store can have.
func (g *git) run(ctx context.Context, args ...string) (stdout string, err error) {
	return g.feed(ctx, nil, args...)
}

// feed is run with input.
func (g *git) feed(ctx context.Context, input []byte, args ...string) (stdout string, err error) {
	ctx, cancel := g.limited(ctx)
	defer cancel()
	cmd := g.command(args...)
	var out, said capped
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &said
	if input == nil {
		cmd.Stdin = nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", &gitError{what: args[0], cause: err}
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = g.attend(ctx, cmd, ended)
	switch {
	case err != nil && silent(ctx):
		return out.String(), &gitError{what: args[0], cause: errSilent, timeout: patienceOf(ctx).limit, text: g.redact(said.String())}
	case ctx.Err() != nil && err != nil:
		return out.String(), ctx.Err()
	case errors.Is(err, errTooMuch):
		return "", err
	case err != nil:
		return out.String(), &gitError{what: args[0], cause: err, text: g.redact(said.String()), denied: deniedText(said.String())}
	}
	return out.String(), nil
}

func (g *git) attend(ctx context.Context, cmd *exec.Cmd, ended <-chan error) error {
	start, look := time.Now(), time.NewTicker(250*time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			if errors.Is(err, exec.ErrWaitDelay) {
				return nil
			}
			return err
		case <-ctx.Done():
			kill(cmd)
			<-ended
			return ctx.Err()
		case <-look.C:
			if g.brought(start) > g.limit {
				kill(cmd)
				<-ended
				return errTooMuch
			}
		}
	}
}

// brought is the size of what was left unfinished in the cache since then.
func (g *git) brought(since time.Time) (size int64) {
	if g.dir == "" {
		return 0
	}
	_ = filepath.WalkDir(filepath.Join(g.dir, "objects"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), "tmp_") && !d.IsDir() {
			if fi, err := d.Info(); err == nil && fi.ModTime().After(since.Add(-time.Second)) {
				size += fi.Size()
			}
		}
		return nil
	})
	return size
}

// redact cleans text of others and takes out secrets.
func (g *git) redact(text string) string {
	for _, s := range g.secrets {
		if len(s) > 3 {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	var lines []string
	for line := range strings.Lines(redactURL(text)) {
		if line = clean(strings.TrimSpace(line)); !strings.HasPrefix(line, "hint:") && says(line) {
			lines = append(lines, line)
		}
	}
	const first, last = 2, 4 // ssh gives its reason at the end of a long warning
	if len(lines) > first+last {
		lines = append(lines[:first:first], lines[len(lines)-last:]...)
	}
	return strings.Join(lines, "; ")
}

// says reports whether a line is more than a frame around others.
func says(line string) bool {
	return strings.ContainsFunc(strings.TrimPrefix(line, "remote:"), func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) })
}

// capped keeps the beginning of what is written to it.
type capped struct{ bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	if room := maxOutput - c.Len(); room > 0 {
		c.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
