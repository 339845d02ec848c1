//go:build unix

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/cli"
	"github.com/tasklock/tasklock/internal/harness"
)

// Every command that a text of ours names exists: what is printed for agents,
// what install writes, help and its examples, README and docs.
func TestCommandsInTextsExist(t *testing.T) {
	texts := map[string]string{"guide": harness.Guide}
	for _, name := range harness.Installable() {
		files, err := harness.Setup{Harness: name, Strict: true}.Files()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := f.Install(nil)
			if err != nil {
				t.Fatal(err)
			}
			texts[name+" "+f.Path] = string(text)
		}
	}
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../docs/*/*.md"} {
		docs, _ := filepath.Glob(pattern)
		for _, doc := range docs {
			text, err := os.ReadFile(doc)
			if err != nil {
				t.Fatal(err)
			}
			texts[doc] = string(text)
		}
	}
	for name, text := range cli.Help() {
		texts["help of "+name] = text
	}
	texts["facts of a session"] = facts(t)
	n := 0
	for name, text := range texts {
		for _, line := range commandsIn(text) {
			n++
			words, err := shellWords(t, line)
			if err != nil {
				t.Errorf("%s: %s: %v", name, line, err)
				continue
			}
			if cli.Names(words) { // speaks of the command as such
				continue
			}
			if err := cli.Understands(words); err != nil {
				t.Errorf("%s: tasklock %s: %v", name, line, err)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d commands were found", n)
	}
}

// facts is the text for a session at its start, a command in each line.
func facts(t *testing.T) string {
	t.Helper()
	cmd := newSession(t).command("hook", "claude", "SessionStart")
	cmd.Stdin = strings.NewReader(`{"session_id":"s"}`)
	out, err := cmd.Output()
	_, commands, ok := strings.Cut(strings.TrimSuffix(string(out), ".\n"), "Commands: ")
	if err != nil || !ok {
		t.Fatalf("%v: %s", err, out)
	}
	return "  " + strings.ReplaceAll(commands, "; ", "\n  ")
}

var (
	inCode   = regexp.MustCompile("`tasklock ([^`\n]+)`")
	inBlock  = regexp.MustCompile(`(?m)^(?:\$ |  )tasklock ([^\n]+)$`)
	inFacts  = regexp.MustCompile(`"tasklock (hook [^"]+)"`)
	choice   = regexp.MustCompile(`\S\|\S`)
	input    = regexp.MustCompile(`<\S+`)
	comments = regexp.MustCompile(`\s{2,}\S.*$|\s+#.*$`)
)

// commandsIn returns the command lines of a text, without "tasklock". A
// placeholder in place of the command itself is none.
func commandsIn(text string) (lines []string) {
	for _, re := range []*regexp.Regexp{inCode, inBlock, inFacts} {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			line := m[1]
			if re == inBlock {
				line = comments.ReplaceAllString(line, "")
			}
			line, _, _ = strings.Cut(line, "; or: ")
			if first := line[0]; first >= 'a' && first <= 'z' && !strings.ContainsAny(line, "…[") && !choice.MatchString(line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// shellWords lets a shell split a line; of several commands it is the first.
func shellWords(t *testing.T, line string) ([]string, error) {
	line = strings.ReplaceAll(input.ReplaceAllString(line, ""), "--token N", "--token 5")
	cmd := exec.Command("bash", "-c", `exec 3>&1 >/dev/null; tasklock() { printf '%s\0' "$@" >&3; exit; }; TOKEN=5; tasklock `+line)
	cmd.Dir = t.TempDir() // redirections write here
	out, err := cmd.Output()
	if len(out) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// TestGuideRuns runs what the guide says, as it stands, in a fresh project.
func TestGuideRuns(t *testing.T) {
	s := newSession(t)
	remote := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"},
		{"init", "-q", "--bare", remote},
		{"remote", "add", "origin", remote},
		{"push", "-q", "origin", "main"}, // for land
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = s.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	s.pipe("tasks", "add", "one", "two", "three", "four", "five", "six", "seven")
	for _, line := range commandsIn(harness.Guide) {
		words, err := shellWords(t, strings.NewReplacer("make deploy", "true", "make test", "true").Replace(line))
		if err != nil {
			t.Fatal(err)
		}
		if out, err := s.command(words...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	}
}
