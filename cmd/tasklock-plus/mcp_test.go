//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/internal/torture/long"
)

// place is a folder with a store and the two programs beside each other.
type place struct {
	*testing.T
	bin, dir string
}

var build = sync.OnceValues(func() (string, error) {
	bin, err := os.MkdirTemp("", "tasklock-mcp-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", bin+"/", "../tasklock", ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := build(); err == nil {
		os.RemoveAll(bin)
	}
	os.Exit(code)
}

func newPlace(t *testing.T) *place {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return &place{t, bin, t.TempDir()}
}

func (p *place) command(owner string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(p.bin, "tasklock"), args...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + p.bin + ":" + os.Getenv("PATH"), "HOME=" + p.dir, "TASKLOCK_OWNER=" + owner}
	return cmd
}

// tasklock runs a command that must exit with one of the codes.
func (p *place) tasklock(owner string, args ...string) string {
	p.Helper()
	out, err := p.command(owner, args...).Output()
	if err != nil {
		p.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

func (p *place) exits(code int, args ...string) string {
	p.Helper()
	cmd := p.command("test", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		p.Fatalf("%q: exit %d, want %d: %s", args, got, code, stderr.String())
	}
	return stderr.String()
}

func (p *place) free(key string) bool {
	cmd := p.command("test", "check", key)
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode() == 1
}

// connect starts tasklock mcp as a harness does.
func (p *place) connect(owner string) (*mcp.ClientSession, *exec.Cmd) {
	p.Helper()
	cmd := p.command(owner, "mcp")
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(context.Background(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = s.Close() })
	return s, cmd
}

type result struct {
	State, Lease, Task, Holder string
	Token                      int64
}

func (p *place) call(s *mcp.ClientSession, tool string, args map[string]any) (r result) {
	p.Helper()
	res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		p.Error(err)
		return r
	}
	text, _ := json.Marshal(res.StructuredContent)
	_ = json.Unmarshal(text, &r)
	return r
}

func acquire(key string) map[string]any { return map[string]any{"keys": []string{key}} }

// TestServerOfAHarness: it works through the plain command, in the store of its
// folder, and ends with its client.
func TestServerOfAHarness(t *testing.T) {
	p := newPlace(t)
	p.tasklock("test", "tasks", "add", "Fix bug")
	s, cmd := p.connect("claude:s1")
	r := p.call(s, "claim", map[string]any{})
	if r.State != "acquired" || r.Task != "t1" {
		t.Fatalf("%+v", r)
	}
	if out := p.tasklock("test", "list", "--json"); !strings.Contains(out, `"owner":"claude:s1/mcp-`) {
		t.Error(out)
	}
	if r := p.call(s, "complete", map[string]any{"lease": r.Lease}); r.State != "completed" {
		t.Errorf("%+v", r)
	}
	if r := p.call(s, "acquire", acquire("a")); r.State != "acquired" {
		t.Errorf("%+v", r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if cmd.ProcessState.ExitCode() != 0 || !p.free("a") {
		t.Errorf("exit %d", cmd.ProcessState.ExitCode())
	}
}

// TestServerDies: killed or told to end, its locks are free at once and not
// after five minutes.
func TestServerDies(t *testing.T) {
	p := newPlace(t)
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		s, cmd := p.connect("claude:s1")
		if r := p.call(s, "acquire", acquire("a")); r.State != "acquired" {
			t.Fatalf("%+v", r)
		}
		if p.free("a") {
			t.Fatal("not held")
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		patience.Until(p, fmt.Sprint(signal, " frees it"), func() bool { return p.command("bob", "acquire", "a", "--no-wait").Run() == nil })
		p.tasklock("bob", "release", "a")
	}
}

// TestParentDies: the harness is killed, and something that it left behind has
// still got its end of the pipe.
func TestParentDies(t *testing.T) {
	p := newPlace(t)
	in, feed, err := os.Pipe() // this test is what was left behind
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	harness := p.command("claude:s1")
	harness.Path, harness.Args = "/bin/sh", []string{"sh", "-c", `exec 3<&0; "$0" mcp <&3 & wait`, filepath.Join(p.bin, "tasklock")}
	harness.Stdin = in
	out, err := harness.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := harness.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	answers := bufio.NewReader(out)
	ask := func(line string, answer bool) {
		t.Helper()
		if _, err := feed.WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
		if got, err := "", error(nil); answer {
			if got, err = answers.ReadString('\n'); err != nil {
				t.Fatal(got, err)
			}
		}
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, true)
	ask(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, false)
	ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"acquire","arguments":{"keys":["a"]}}}`, true)
	if p.free("a") {
		t.Fatal("not held")
	}
	if err := harness.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	patience.Until(p, "the death of its parent frees it", func() bool { return p.free("a") })
	_ = harness.Wait()
}

// TestRaceWithTheCommand: one session through MCP, one through the shell, both
// want the same task; one gets it, and completes it once.
func TestRaceWithTheCommand(t *testing.T) {
	rounds := 20
	if long.Asked() {
		rounds = long.Count(100)
	}
	p := newPlace(t)
	p.tasklock("test", "init")
	a, _ := p.connect("claude:s1")
	b, _ := p.connect("codex:s2")
	owner := p.hooked("s3")
	won := map[string]int{}
	for i := range rounds {
		id := fmt.Sprint("t", i+1)
		p.tasklock("test", "tasks", "add", "race")
		winners := make(chan string, 3)
		var all sync.WaitGroup
		for name, s := range map[string]*mcp.ClientSession{"a": a, "b": b} {
			all.Go(func() {
				time.Sleep(rand.N(12 * time.Millisecond)) // the command has a process to start
				if r := p.call(s, "claim", map[string]any{"task": id}); r.State == "acquired" {
					winners <- name
					if done := p.call(s, "complete", map[string]any{"lease": r.Lease}); done.State != "completed" {
						t.Errorf("%+v", done)
					}
				}
			})
		}
		all.Go(func() {
			if p.command(owner, "tasks", "claim", id, "--no-wait").Run() == nil {
				winners <- "shell"
				p.hook("PostToolUse", `{"session_id":"s3","cwd":%q,"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"tasklock tasks claim"}}`)
				p.tasklock(owner, "tasks", "complete", id)
			}
		})
		all.Wait()
		if len(winners) != 1 {
			t.Fatalf("round %d: %d winners", i, len(winners))
		}
		won[<-winners]++
	}
	t.Logf("%d rounds: %v", rounds, won)
}

// hook gives a recorded event to the hook of Claude Code.
func (p *place) hook(event, format string) string {
	cmd := p.command("", "hook", "claude", event)
	cmd.Stdin = strings.NewReader(fmt.Sprintf(format, p.dir))
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.Errorf("%s: %v: %s", event, err, out)
	}
	return string(out)
}

// hooked is the owner that the hooks know a session by.
func (p *place) hooked(session string) string {
	p.Helper()
	out := p.hook("SessionStart", `{"session_id":"`+session+`","cwd":%q,"hook_event_name":"SessionStart","source":"startup"}`)
	m := regexp.MustCompile(`This session is tasklock owner (\S+)\.`).FindStringSubmatch(out)
	if m == nil {
		p.Fatal(out)
	}
	return m[1]
}

// TestOwnPathLock: what a session locks through its server does not keep it
// from its files, and keeps others.
func TestOwnPathLock(t *testing.T) {
	p := newPlace(t)
	if out, err := exec.Command("git", "init", "-q", p.dir).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	s, _ := p.connect("claude:s1")
	if r := p.call(s, "acquire", acquire("path:src/**")); r.State != "acquired" {
		t.Fatalf("%+v", r)
	}
	for session, want := range map[string]int{"s1": 0, "s2": 2} {
		cmd := p.command("", "hook", "claude", "PreToolUse")
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"session_id":%q,"cwd":%q,"hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":%q}}`,
			session, p.dir, filepath.Join(p.dir, "src", "a.go")))
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: exit %d, want %d", session, got, want)
		}
	}
}

// TestHTTPKey: the access key is nobody else's, and nothing listens beyond this
// machine without one that was chosen.
func TestHTTPKey(t *testing.T) {
	p := newPlace(t)
	cmd := p.command("shared", "mcp", "--http", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stderr).ReadString('\n')
	m := regexp.MustCompile(`^Serving MCP at (http://127\.0\.0\.1:\d+/mcp); the access key is in (.*)\.\n$`).FindStringSubmatch(line)
	if err != nil || m == nil {
		t.Fatal(line, err)
	}
	key, err := os.ReadFile(m[2])
	fi, _ := os.Stat(m[2])
	if err != nil || len(strings.TrimSpace(string(key))) < 43 || fi.Mode().Perm() != 0o600 || strings.Contains(line, strings.TrimSpace(string(key))) {
		t.Fatal(err, fi.Mode())
	}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: m[1], HTTPClient: &http.Client{Transport: withKey(strings.TrimSpace(string(key)))}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := p.call(s, "acquire", acquire("a")); r.State != "acquired" {
		t.Errorf("%+v", r)
	}
	_ = s.Close()
	if p.free("a") {
		t.Error("the lock ended with a session")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 0 || !p.free("a") {
		t.Errorf("exit %d, free %v", cmd.ProcessState.ExitCode(), p.free("a"))
	}

	p.exits(10, "mcp", "--http", "0.0.0.0:0")
	p.exits(10, "mcp", "--http", ":0", "--access-key-file", "none")
	p.exits(2, "mcp", "--http", "nonsense")
	p.exits(2, "mcp", "--access-key-file", "x")
	p.exits(2, "mcp", "--dry-run")
	if err := os.WriteFile(filepath.Join(p.dir, "weak"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.exits(10, "mcp", "--http", "127.0.0.1:0", "--access-key-file", "weak")
	wide := filepath.Join(p.dir, "wide")
	if err := os.WriteFile(wide, key, 0o644); err != nil {
		t.Fatal(err)
	}
	if text := p.exits(10, "mcp", "--http", "127.0.0.1:0", "--access-key-file", "wide"); strings.Contains(text, strings.TrimSpace(string(key))) {
		t.Error("the key was printed")
	}
	if err := os.Symlink(m[2], filepath.Join(p.dir, "link")); err != nil {
		t.Fatal(err)
	}
	p.exits(10, "mcp", "--http", "127.0.0.1:0", "--access-key-file", "link")
}

type withKey string

func (k withKey) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}
