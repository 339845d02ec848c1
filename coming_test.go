package tasklock_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

var (
	commandIn = regexp.MustCompile("`(tasklock [^`]+)`")
	argument  = regexp.MustCompile(`"[^"]*"|\S+`)
)

// A coming is one system of docs/coming-from.md.
type coming struct {
	heading string
	fixture func(t *testing.T, dir string) // makes data in its format
	names   map[string]string              // what the capital letters stand for
	rows    []comingRow                    // one for each command, in the order of the page
}

// A comingRow is a command of the page with what holds after it.
type comingRow struct {
	command string
	exit    int
	prints  string   // matches its output
	then    []string // "EXIT ARGUMENTS ~ EXPRESSION"
	stays   bool     // it runs until the end
	until   bool     // it is repeated until it prints that
}

// TestComingFrom runs every command of the page, in its order, on data in the
// format of that system, and looks at the state after it.
func TestComingFrom(t *testing.T) {
	long.NotShort(t) // builds the command
	bin := build(t)
	text, err := os.ReadFile("docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n## ")[1:]
	if len(sections) != len(comings) {
		t.Fatalf("%d systems on the page, %d in the test", len(sections), len(comings))
	}
	for i, c := range comings {
		t.Run(c.heading, func(t *testing.T) {
			t.Parallel()
			heading, body, _ := strings.Cut(sections[i], "\n")
			var page, test []string
			for _, m := range commandIn.FindAllStringSubmatch(body, -1) {
				page = append(page, m[1])
			}
			for _, r := range c.rows {
				test = append(test, r.command)
			}
			if heading != c.heading || !slices.Equal(page, test) {
				t.Fatalf("%q on the page:\n%s\nin the test:\n%s", heading, strings.Join(page, "\n"), strings.Join(test, "\n"))
			}
			c.run(t, bin)
		})
	}
}

func (c coming) run(t *testing.T, bin string) {
	dir := t.TempDir()
	names := maps.Clone(c.names)
	for k, v := range names {
		names[k] = strings.ReplaceAll(v, "DIR", filepath.ToSlash(dir))
	}
	words := regexp.MustCompile(`\b(` + strings.Join(slices.Sorted(maps.Keys(names)), "|") + `)\b`)
	if out, err := exec.Command("git", "init", "--quiet", dir).CombinedOutput(); err != nil { // all of them work in a repository
		t.Fatalf("%v: %s", err, out)
	}
	c.fixture(t, dir)
	command := func(line string) *exec.Cmd {
		var args []string
		for _, a := range argument.FindAllString(strings.TrimPrefix(line, "tasklock "), -1) {
			if a == "COMMAND" {
				args = append(args, "tasklock", "version")
				continue
			}
			args = append(args, words.ReplaceAllStringFunc(strings.Trim(a, `"`), func(w string) string { return names[w] }))
		}
		cmd := exec.Command(filepath.Join(bin, "tasklock"), args...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "USERPROFILE=" + dir, "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TASKLOCK_OWNER=tester", "TZ=UTC"}
		return cmd
	}
	run := func(line string, exit int, prints string) error {
		cmd := command(line)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != exit || !regexp.MustCompile(`(?ms)`+prints).Match(out) {
			return fmt.Errorf("%s: exit %d, want %d and %q:\n%s", strings.Join(cmd.Args[1:], " "), got, exit, prints, out)
		}
		return nil
	}
	for _, r := range c.rows {
		if r.stays {
			cmd := command(r.command)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			continue
		}
		err := run(r.command, r.exit, r.prints)
		for start := time.Now(); err != nil && r.until && time.Since(start) < 2*time.Minute; err = run(r.command, r.exit, r.prints) {
			time.Sleep(200 * time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, then := range r.then {
			line, prints, _ := strings.Cut(then, " ~ ")
			var exit int
			if _, err := fmt.Sscanf(line, "%d", &exit); err != nil {
				t.Fatal(err)
			}
			_, line, _ = strings.Cut(line, " ")
			if err := run(line, exit, prints); err != nil {
				t.Fatalf("after %s: %v", r.command, err)
			}
		}
	}
}
