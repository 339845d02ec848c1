//go:build unix

package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hook runs one event of a session without a terminal.
func (s *session) hook(event, json string) (out string, code int) {
	s.t.Helper()
	cmd := s.command("hook", "claude", event)
	cmd.Stdin = strings.NewReader(json)
	b, _ := cmd.CombinedOutput()
	return string(b), cmd.ProcessState.ExitCode()
}

// The facts for a session are short, however long the names of others are, and
// however many there are.
func TestFactsAreShort(t *testing.T) {
	s := newSession(t, "TASKLOCK_OWNER=")
	long := strings.Repeat("a very long name ", 20)
	for i := range 30 {
		s.pipe("acquire", fmt.Sprintf("%s%d", long, i), "--owner", fmt.Sprintf("claude:%s%d", long, i))
		s.pipe("acquire", fmt.Sprintf("path:%s%d", strings.ReplaceAll(long, " ", "/x"), i), "--owner", "claude:s-"+long)
	}
	out, code := s.hook("SessionStart", fmt.Sprintf(`{"session_id":"s-%s"}`, long))
	if code != 0 || len(out) > 400 || !strings.HasSuffix(out, "Commands: tasklock next --claim; tasklock acquire path:FILE; tasklock guide.\n") {
		t.Errorf("exit %d, %d bytes: %s", code, len(out), out)
	}
}

// Events that are huge, deep, or full of tricks end soon and deny nothing.
func TestHostileEvents(t *testing.T) {
	s := newSession(t, "TASKLOCK_OWNER=")
	s.pipe("acquire", "path:src", "--owner", "other")
	big := strings.Repeat("x", 17<<20)
	for name, json := range map[string]string{
		"too large": `{"session_id":"s","tool_name":"Write","tool_input":{"file_path":"src/a","content":"` + big + `"}}`,
		"deep":      strings.Repeat(`{"tool_input":`, 100_000),
		"nul":       `{"session_id":"s","tool_name":"Write","tool_input":{"file_path":"docs/\u0000a"}}`,
		"long path": `{"session_id":"s","tool_name":"Write","tool_input":{"file_path":"` + strings.Repeat("a/", 100_000) + `"}}`,
		"endless":   `{"session_id":"s","tool_name":"Bash","tool_input":{"command":"` + strings.Repeat("$(", 200_000) + `"}}`,
		"groups":    `{"session_id":"s","tool_name":"Bash","tool_input":{"command":"` + strings.Repeat("{a ", 300_000) + `"}}`,
		"quotes":    `{"session_id":"s","tool_name":"Bash","tool_input":{"command":"` + strings.Repeat(`\"$(`, 200_000) + `"}}`,
		"loops":     `{"session_id":"s","tool_name":"Bash","tool_input":{"command":"` + strings.Repeat(`for a in 1 2 3 4 5 6 7 8 9; do `, 5_000) + strings.Repeat("echo; done; ", 5_000) + `"}}`,
		"owner":     `{"session_id":"` + strings.Repeat("/", 5000) + `","tool_name":"Write","tool_input":{"file_path":"docs/a"}}`,
		"escape":    `{"session_id":"s\u001b]52;c;x\u0007","tool_name":"Write","tool_input":{"file_path":"docs/a"}}`,
	} {
		began := time.Now()
		out, code := s.hook("PreToolUse", json)
		if code != 0 && code != 1 || len(out) > 2000 || strings.Contains(out, "bug in tasklock") || strings.Contains(out, "\x1b") {
			t.Errorf("%s: exit %d: %.300q", name, code, out)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s: %s", name, took)
		}
	}
	if out, code := s.hook("PreToolUse", `{"session_id":"s","tool_name":"Write","tool_input":{"file_path":"src/a","content":"`+big[:4<<20]+`"}}`); code != 2 {
		t.Errorf("a large file: exit %d: %.300q", code, out)
	}
}

// A harness that opens the pipe and says nothing is not waited for.
func TestSilentHarness(t *testing.T) {
	t.Parallel()
	s := newSession(t, "TASKLOCK_OWNER=", "TASKLOCK_TEST_IMPATIENT=1")
	for _, begin := range []string{"", `{"session_id":"s",`} {
		cmd := s.command("hook", "claude", "PreToolUse")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.WaitDelay = time.Minute
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		_, _ = in.Write([]byte(begin))
		state, _ := cmd.Process.Wait()
		kill.Stop()
		_ = in.Close()
		if state.ExitCode() != 1 {
			t.Errorf("%q: %s", begin, state)
		}
	}
}

// On a terminal every file is asked for.
func TestInstallAsks(t *testing.T) {
	s := newSession(t)
	sc := s.terminal("agents", "install", "claude")
	sc.see("settings.json\\? \\[Y/n\\]")
	sc.typed("n\r")
	sc.see("mcp.json\\? \\[Y/n\\]")
	sc.typed("\r")
	sc.see("AGENTS.md\\? \\[Y/n\\]")
	sc.typed("no\r")
	sc.end()
	for file, want := range map[string]bool{".claude/settings.json": false, ".mcp.json": true, "AGENTS.md": false} {
		if _, err := os.Stat(filepath.Join(s.dir, file)); (err == nil) != want {
			t.Errorf("%s: %v", file, err)
		}
	}
}
