package harness

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strings"

	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/internal/rewrite"
)

// shellCall is a command that a tool is about to run: where, and the tool's whole
// input.
type shellCall struct {
	dir   string
	input json.RawMessage
}

// Renames reports whether the answer to an event can change the command that a tool
// will run. In Codex that would skip the approval of a person. On Windows, Gemini's
// shell is one that we do not read.
func (e Event) Renames() bool {
	return e.Harness == "claude" || e.Harness == "gemini" && runtime.GOOS != "windows"
}

// Hookless reports whether git runs no hooks in the harness's shell: Gemini switches
// them off, so that a repository cannot bring its own.
func (e Event) Hookless() bool { return e.Harness == "gemini" }

// Naming is what a command must know.
type Naming struct {
	Owner   string
	Named   bool                     // calls of tasklock find it without help
	Guarded func(dirs []string) bool // whether there is a guard in one of the folders
	Hooks   string                   // the guard as a folder of hooks, where git runs none
}

// Rename lets the action go on with a command that names its owner.
func (e Event) Rename(n Naming) Reply {
	var input map[string]json.RawMessage
	var command string
	if !e.Renames() || e.Session == "" || bytes.Contains(e.command.input, []byte(leftOut)) ||
		json.Unmarshal(e.command.input, &input) != nil || json.Unmarshal(input["command"], &command) != nil {
		return e.Pass()
	}
	text := rewrite.Request{
		Command: command, Owner: n.Owner, Named: n.Named, Hooks: n.Hooks, Session: e.Caller().Name(),
		Guarded: func(dirs []string) bool {
			for i, dir := range dirs {
				dirs[i] = repo.Absolute(e.command.dir, fromHome(dir))
			}
			return n.Guarded(dirs)
		},
	}.Do()
	if text == command {
		return e.Pass()
	}
	input["command"] = json.RawMessage(encode(text))
	field := "updatedInput"
	if e.Harness == "gemini" {
		field = "tool_input"
	}
	return Reply{Out: encode(map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": e.Name, field: input}})}
}

func fromHome(dir string) string {
	rest, ok := strings.CutPrefix(dir, "~")
	home, err := os.UserHomeDir()
	if !ok || err != nil || rest != "" && rest[0] != '/' {
		return dir
	}
	return home + rest
}
