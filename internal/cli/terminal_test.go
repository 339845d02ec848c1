//go:build unix

package cli_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// session is a folder in which commands are run.
type session struct {
	t   *testing.T
	dir string
	env []string
}

func newSession(t *testing.T, env ...string) *session {
	t.Helper()
	dir := t.TempDir()
	return &session{t: t, dir: dir, env: append([]string{
		"TASKLOCK_TEST_MAIN=1", "TASKLOCK_OWNER=alice", "HOME=" + dir, "TERM=xterm", "PATH=" + os.Getenv("PATH"),
	}, env...)}
}

func (s *session) command(args ...string) *exec.Cmd {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// pipe runs a command without a terminal.
func (s *session) pipe(args ...string) string {
	s.t.Helper()
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

// screen is a command on a terminal of its own.
type screen struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	done chan struct{}

	mu  sync.Mutex
	out bytes.Buffer
}

func (s *session) terminal(args ...string) *screen {
	s.t.Helper()
	cmd := s.command(args...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
	if err != nil {
		s.t.Fatal(err)
	}
	sc := &screen{t: s.t, cmd: cmd, tty: tty, done: make(chan struct{})}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill() // for a test that failed half-way
		_ = tty.Close()
	})
	go func() {
		defer close(sc.done)
		_, _ = io.Copy(sc, tty)
	}()
	return sc
}

func (sc *screen) Write(b []byte) (int, error) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.out.Write(b)
}

func (sc *screen) text() string {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return strings.ReplaceAll(sc.out.String(), "\r\n", "\n")
}

// see waits until the screen has shown the pattern.
func (sc *screen) see(pattern string) {
	sc.t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(time.Minute); !re.MatchString(sc.text()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			sc.t.Fatalf("did not see %s in %q", pattern, sc.text())
		}
	}
}

func (sc *screen) typed(keys string) {
	sc.t.Helper()
	if _, err := sc.tty.WriteString(keys); err != nil {
		sc.t.Fatal(err)
	}
}

// end waits for the command and returns its exit code.
func (sc *screen) end() int {
	sc.t.Helper()
	err := sc.cmd.Wait()
	<-sc.done
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		sc.t.Fatal(err)
	}
	return sc.cmd.ProcessState.ExitCode()
}

func TestTerminalWaits(t *testing.T) {
	s := newSession(t)
	s.pipe("acquire", "fix-bug")
	bob := s.terminal("acquire", "fix-bug", "--owner", "bob", "--wait", "1m")
	bob.see(`Task "fix-bug" is locked by alice\.\nWaiting for lock\.\.\. \(Ctrl\+C to cancel\)\n`)
	bob.see(`\r\[=*> +\] \d+s elapsed of 1m, place 1, held by alice, expires in \S+\x1b\[K`)
	bob.see(`\] [1-9]\d*s elapsed`) // it lives
	s.pipe("release", "fix-bug")
	bob.see(`\r\x1b\[KLock released!\n`)
	if code := bob.end(); code != 0 {
		t.Errorf("exit %d", code)
	}
	bob.see(`\x1b\[32mAcquired\x1b\[0m fix-bug \(token \d+\)`)
}

// TestTerminalWaitsForPool: the line says how full the pool is, not who holds one of
// its slots.
func TestTerminalWaitsForPool(t *testing.T) {
	s := newSession(t)
	s.pipe("acquire", "pool:tests", "--slots", "1")
	bob := s.terminal("acquire", "pool:tests", "--owner", "bob", "--wait", "1m")
	bob.see(`Pool "tests": 1 of 1 used, you are #1\.\nWaiting for lock`)
	bob.see(`\r\[=*> +\] \d+s elapsed of 1m, 1 of 1 used, you are #1\x1b\[K`)
	s.pipe("release", "pool:tests")
	if code := bob.end(); code != 0 {
		t.Errorf("exit %d", code)
	}
	bob.see(`Acquired\x1b\[0m slot 1 of pool:tests \(token \d+\)`)
}

// A copy shows how far it is, and clears that when it is done.
func TestTerminalMigrates(t *testing.T) {
	s := newSession(t)
	if err := os.WriteFile(s.dir+"/plan.md", []byte(strings.Repeat("- [ ] a task\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.pipe("tasks", "import", "plan.md")
	sc := s.terminal("migrate", "--to", "file:records")
	sc.see(`\r\[>? *\] 0 of \d+ records\x1b\[K`)
	sc.see(`\r\x1b\[KMoved \d+ records from sqlite:`)
	if code := sc.end(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestTerminalCleansUp(t *testing.T) {
	s := newSession(t)
	for _, task := range []string{"one", "two", "three"} {
		s.pipe("acquire", task)
	}
	c := s.terminal("cleanup", "--stale-minutes", "0", "--force")
	c.see(`\r\[=+>\] 3 of 3 records\x1b\[K\r\x1b\[K\S*Freed\S* one of alice`)
	if code := c.end(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if out := s.pipe("list"); strings.Contains(out, "alice") {
		t.Errorf("left: %s", out)
	}
}

func TestTerminalInterrupted(t *testing.T) {
	s := newSession(t)
	s.pipe("acquire", "fix-bug")
	bob := s.terminal("acquire", "fix-bug", "--owner", "bob")
	bob.see(`place 1, held by alice`)
	bob.typed("\x03")
	if code := bob.end(); code != 130 {
		t.Errorf("exit %d: %q", code, bob.text())
	}
	bob.see(`Error: .*interrupted`)
	if out := s.pipe("show", "fix-bug"); strings.Contains(out, "bob") {
		t.Errorf("bob still waits: %s", out)
	}
}

// A line that is wider than the window would leave its beginning behind.
func TestTerminalNarrow(t *testing.T) {
	s := newSession(t)
	s.pipe("acquire", "fix-bug", "--owner", strings.Repeat("long", 50))
	bob := s.terminal("acquire", "fix-bug", "--owner", "bob", "--wait", "1m")
	if err := pty.Setsize(bob.tty, &pty.Winsize{Rows: 24, Cols: 40}); err != nil {
		t.Fatal(err)
	}
	bob.see(`\r\[>.{37}\x1b\[K`)
	_ = bob.cmd.Process.Signal(syscall.SIGTERM)
	if code := bob.end(); code != 143 {
		t.Errorf("exit %d", code)
	}
}

func TestTerminalShowsTables(t *testing.T) {
	head := `KEY\S* +\S*OWNER\S* +\S*STATE`
	for _, c := range []struct {
		name   string
		env    string
		args   []string
		colour bool
	}{
		{"colour", "X=1", []string{"list"}, true},
		{"NO_COLOR", "NO_COLOR=1", []string{"list"}, false},
		{"--no-color", "X=1", []string{"list", "--no-color"}, false},
		{"dumb", "TERM=dumb", []string{"list"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSession(t, c.env)
			s.pipe("acquire", "fix-bug")
			sc := s.terminal(c.args...)
			sc.end()
			if got := sc.text(); !regexp.MustCompile(head).MatchString(got) || strings.Contains(got, "\x1b") != c.colour {
				t.Errorf("%q", got)
			}
		})
	}
	s := newSession(t)
	s.pipe("acquire", "fix-bug")
	if got := s.pipe("list"); strings.Contains(got, "KEY") || strings.Contains(got, "\x1b") {
		t.Errorf("a pipe got %q", got)
	}
}

func TestTerminalAsksBeforeBreaking(t *testing.T) {
	s := newSession(t)
	s.pipe("acquire", "fix-bug")
	for _, c := range []struct {
		answer string
		code   int
	}{{"n\r", 5}, {"\r", 5}, {"y\r", 0}} {
		sc := s.terminal("cleanup", "--stale-minutes", "0", "--owner", "janitor")
		sc.see(`fix-bug, held by alice, last heartbeat \S+ ago`)
		sc.see(`Break 1 lock whose holders may still work\? \[y/N\] `)
		sc.typed(c.answer)
		if code := sc.end(); code != c.code {
			t.Errorf("answer %q: exit %d, want %d: %q", c.answer, code, c.code, sc.text())
		}
	}
}

// The terminal is the command's as soon as it runs.
func TestTerminalRunAfterWait(t *testing.T) {
	s := newSession(t)
	s.pipe("acquire", "deploy", "--owner", "bob")
	sc := s.terminal("run", "deploy", "--", "sh", "-c", "echo started; sleep 0.5; echo finished")
	sc.see(`place 1, held by bob`)
	s.pipe("release", "deploy", "--owner", "bob")
	if code := sc.end(); code != 0 {
		t.Errorf("exit %d", code)
	}
	sc.see(`Lock released!\nstarted\nfinished\n$`)
}
