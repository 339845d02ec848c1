package tasklock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var commandIn = regexp.MustCompile("`(tasklock [^`]+)`")

// TestComingFrom checks that every command that docs/coming-from.md names is
// one, with all its flags: --help understands what stands before it.
func TestComingFrom(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	bin := filepath.Join(build(t), "tasklock")
	text, err := os.ReadFile("docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	found := commandIn.FindAllStringSubmatch(string(text), -1)
	if len(found) < 40 {
		t.Fatalf("%d commands in the document", len(found))
	}
	for _, m := range found {
		if err := understands(bin, strings.Fields(m[1])[1:]); err != "" {
			t.Errorf("%s: %s", m[1], err)
		}
	}
	for _, bad := range []string{"frobnicate", "list --frob", "tasks frob ID"} {
		if understands(bin, strings.Fields(bad)) == "" {
			t.Errorf("%s: passes for a command", bad)
		}
	}
}

// understands asks for the help of a command line, and says what is wrong with it.
func understands(bin string, args []string) string {
	for i, a := range args {
		if a == "--" {
			args = args[:i]
			break
		}
	}
	// Flags are read before help is given; a command that is none has no usage line of its own.
	out, err := exec.Command(bin, append(append([]string{}, args...), "--help")...).CombinedOutput()
	if err != nil {
		return string(out)
	}
	help := string(out)
	for n := len(args); n > 0; n-- {
		usage := "\n  tasklock " + strings.Join(args[:n], " ")
		if !strings.Contains(help, usage+" ") && !strings.Contains(help, usage+"\n") {
			continue
		}
		if group := strings.Contains(help, "Available Commands:"); group && n < len(args) {
			break
		}
		return ""
	}
	return "no such command"
}
