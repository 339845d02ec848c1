package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strings"

	"github.com/tasklock/tasklock/agent/rewrite"
)

// shellCall is a command that a tool is about to run: where, and all that the tool
// was told.
type shellCall struct {
	dir   string
	input json.RawMessage
}

// Renames reports whether the answer to an event can change the command that a
// tool is about to run. In Codex that would skip the approval of a person. On
// Windows, Gemini's commands are not for a shell that we read.
func (e Event) Renames() bool {
	return e.Harness == "claude" || e.Harness == "gemini" && runtime.GOOS != "windows"
}

// Rename lets the action go on with a command that names its owner. Guarded reports
// whether git asks a guard in one of the folders.
func (e Event) Rename(owner string, guarded func(dirs []string) bool) Reply {
	var input map[string]json.RawMessage
	var command string
	if !e.Renames() || e.Session == "" || bytes.Contains(e.command.input, []byte(leftOut)) ||
		json.Unmarshal(e.command.input, &input) != nil || json.Unmarshal(input["command"], &command) != nil {
		return e.Pass()
	}
	text := rewrite.Request{
		Command: command, Owner: owner, Session: e.Harness + ":" + segment(e.Session),
		Guarded: func(dirs []string) bool {
			for i, dir := range dirs {
				dirs[i] = join(e.command.dir, fromHome(dir))
			}
			return guarded(dirs)
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
