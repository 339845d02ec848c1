package identity

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/host"
)

// programs are the names under which harnesses run.
var programs = map[string]string{
	"claude": "claude", "claude-code": "claude", "codex": "codex", "gemini": "gemini", "gemini-cli": "gemini",
	"cursor-agent": "cursor", "opencode": "opencode", "pi": "pi", "pi-coding-agent": "pi",
}

// interpreters run the harnesses that are scripts.
var interpreters = []string{"node", "nodejs", "bun", "deno", "sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"}

// interpreterValued are flags of theirs that take the next word.
var interpreterValued = []string{"-r", "--require", "--import", "--loader", "--experimental-loader", "--preload", "--env-file", "--conditions", "-C"}

// maxAncestors bounds the way up: a loop in what the system says must end.
const maxAncestors = 64

// Process is the process that the caller's session lives in: the one that the
// harness names, else the nearest parent of this process that is a harness.
func Process(id Identity) (int, error) {
	if id.PID > 0 {
		return id.PID, nil
	}
	pid, _, err := nearest()
	return pid, err
}

// nearest is the closest parent of this process that is a harness, and which one.
func nearest() (found int, harness string, err error) {
	err = ancestors(func(pid int, words []string) bool {
		if harness = harnessOf(words); harness != "" {
			found = pid
		}
		return found > 0
	})
	if found == 0 && err == nil {
		err = errors.New("no coding agent is among the parents of this process")
	}
	return found, harness, err
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

// harnessOf names the harness that a process is, by the name of its program or of
// the script that an interpreter runs; empty: the process is not a harness. The
// words are the name that the system shows, and the command line.
func harnessOf(words []string) string {
	for _, w := range words[:min(len(words), 2)] {
		if h := program(w); h != "" {
			return h
		}
	}
	if len(words) < 3 || !slices.Contains(interpreters, path.Base(filepath.ToSlash(words[1]))) {
		return ""
	}
	for i := 2; i < len(words); i++ {
		switch {
		case slices.Contains(interpreterValued, words[i]):
			i++
		case !strings.HasPrefix(words[i], "--"):
			return program(words[i])
		}
	}
	return ""
}

// program names the harness that a file is: by its own name, or by the name of
// its package.
func program(file string) string {
	parts := strings.Split(filepath.ToSlash(file), "/")
	name := strings.ToLower(parts[len(parts)-1])
	if h := programs[strings.TrimSuffix(strings.TrimSuffix(name, ".exe"), ".js")]; h != "" {
		return h
	}
	for i := len(parts) - 2; i >= 0; i-- {
		if parts[i] == "node_modules" {
			pack := parts[i+1:]
			if len(pack) > 1 && strings.HasPrefix(pack[0], "@") {
				pack = pack[1:]
			}
			return programs[strings.ToLower(pack[0])]
		}
	}
	return ""
}
