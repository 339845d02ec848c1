package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/host"
)

// programs are the names under which harnesses run.
var programs = []string{
	"claude", "claude-code", "codex", "gemini", "gemini-cli", "cursor-agent", "opencode", "pi", "pi-coding-agent",
}

// maxAncestors bounds the way up: a loop in what the system says must end.
const maxAncestors = 64

// Harness is the process that the session lives in: the one that the harness
// names, else the nearest parent of this process that is one.
func Harness(id Identity) (int, error) {
	if id.PID > 0 {
		return id.PID, nil
	}
	return nearest()
}

// nearest is the closest parent of this process that is a harness.
func nearest() (int, error) {
	found := 0
	err := ancestors(func(pid int, words []string) bool {
		if fits(words) {
			found = pid
		}
		return found > 0
	})
	switch {
	case found > 0:
		return found, nil
	case err != nil:
		return 0, err
	}
	return 0, errors.New("no coding agent is among the parents of this process")
}

// ancestors visits the processes above this one, the nearest first, until visit
// says that it is enough.
func ancestors(visit func(pid int, words []string) bool) error {
	for pid, n := os.Getppid(), 0; pid > 1 && n < maxAncestors; n++ {
		parent, words, err := host.Parent(pid)
		if err != nil {
			return err
		}
		if visit(pid, words) {
			return nil
		}
		pid = parent
	}
	return nil
}

// fits reports whether a command line is that of a harness: by the name of its
// program, or of the script that an interpreter runs.
func fits(words []string) bool {
	for _, w := range words[:min(len(words), 3)] {
		parts := strings.FieldsFunc(filepath.ToSlash(w), func(r rune) bool { return r == '/' })
		for i, p := range parts {
			p = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(p), ".exe"), ".js")
			if slices.Contains(programs, p) && (i == len(parts)-1 || i > 0 && strings.Contains(w, "node_modules")) {
				return true
			}
		}
	}
	return false
}
