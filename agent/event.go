package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// An Event is what a harness tells its hooks, in one vocabulary.
type Event struct {
	Harness string
	Name    string // in the harness's words
	What    What
	Session string // the harness's name of the session; empty: it gave none
	Agent   string // the subagent at work; empty: the session itself
	Dir     string // where it works; empty: not said
	Tool    string
	Targets []Target // what the tool would write
}

// What happened, or is about to.
type What int

// The events that mean something to tasklock. Every one counts as a heartbeat.
const (
	Other What = iota
	SessionStart
	BeforeTool // can be denied
	AfterTool
	AgentStart
	AgentStop
	SessionEnd
)

// MaxEvent bounds the JSON of one event: a tool may write a large file.
const MaxEvent = 16 << 20

// hookNames are the events of each harness that mean more than a heartbeat.
// Stop is none of them: it fires at every turn.
var hookNames = map[string]map[string]What{
	"claude": claudeNames,
	"codex":  claudeNames,
	"pi":     claudeNames, // by the extension that install writes
	"gemini": {"SessionStart": SessionStart, "BeforeTool": BeforeTool, "AfterTool": AfterTool, "SessionEnd": SessionEnd},
	"cursor": {
		"sessionStart": SessionStart, "preToolUse": BeforeTool, "beforeShellExecution": BeforeTool,
		"postToolUse": AfterTool, "afterFileEdit": AfterTool, "afterShellExecution": AfterTool,
		"subagentStart": AgentStart, "subagentStop": AgentStop, "sessionEnd": SessionEnd,
	},
}

var claudeNames = map[string]What{
	"SessionStart": SessionStart, "PreToolUse": BeforeTool, "PostToolUse": AfterTool,
	"SubagentStart": AgentStart, "SubagentStop": AgentStop, "SessionEnd": SessionEnd,
}

// Hooked names the harnesses that have hooks.
func Hooked() []string { return []string{"claude", "codex", "gemini", "cursor", "pi"} }

// Meaning is what an event of that name is, also where its JSON says nothing.
func Meaning(harness, name string) What { return hookNames[harness][name] }

// payload is the JSON of all harnesses: each uses some of it. Fields of other
// types than expected count as missing.
type payload struct {
	SessionID      word            `json:"session_id"`
	ConversationID word            `json:"conversation_id"`
	AgentID        word            `json:"agent_id"`
	SubagentID     word            `json:"subagent_id"`
	Dir            word            `json:"cwd"`
	Roots          words           `json:"workspace_roots"`
	Tool           word            `json:"tool_name"`
	Input          json.RawMessage `json:"tool_input"`
	Command        word            `json:"command"` // Cursor, before a shell command
}

// ParseEvent reads the JSON that a harness gives its hook of that name.
func ParseEvent(harness, name string, data []byte) (Event, error) {
	if _, known := hookNames[harness]; !known {
		return Event{}, fmt.Errorf("unknown harness %q; known are %s", harness, strings.Join(Hooked(), ", "))
	}
	e := Event{Harness: harness, Name: name, What: Meaning(harness, name)}
	var p payload
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return e, fmt.Errorf("the event has no JSON")
	case data[0] != '{':
		return e, fmt.Errorf("the event is not a JSON object")
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return e, fmt.Errorf("the event's JSON: %w", err)
	}
	e.Session, e.Agent, e.Dir, e.Tool = string(p.SessionID), string(p.AgentID), string(p.Dir), string(p.Tool)
	if harness == "cursor" && p.ConversationID != "" {
		e.Session = string(p.ConversationID)
	}
	if e.Agent == "" {
		e.Agent = string(p.SubagentID)
	}
	if e.Dir == "" && len(p.Roots) > 0 {
		e.Dir = p.Roots[0]
	}
	if e.What != BeforeTool {
		return e, nil
	}
	dir := e.Dir
	if dir == "" {
		dir = "." // of the hook itself
	}
	if e.Tool == "" && p.Command != "" {
		e.Targets = Writes(string(p.Command), dir)
		return e, nil
	}
	var in toolInput
	if len(p.Input) > 0 && p.Input[0] == '{' {
		if err := json.Unmarshal(p.Input, &in); err != nil {
			return e, fmt.Errorf("the event's tool_input: %w", err)
		}
	}
	e.Targets = in.targets(e.Tool, dir)
	return e, nil
}

// toolInput is what tools that write are told.
type toolInput struct {
	FilePath     word    `json:"file_path"`
	NotebookPath word    `json:"notebook_path"`
	Path         word    `json:"path"`
	TargetFile   word    `json:"target_file"`
	AbsolutePath word    `json:"absolute_path"`
	Source       word    `json:"source"` // of move_file
	Destination  word    `json:"destination"`
	Command      command `json:"command"`
	Patch        word    `json:"patch"`
	Input        word    `json:"input"`
	Directory    word    `json:"directory"`
	DirPath      word    `json:"dir_path"`
	Workdir      word    `json:"workdir"`
	Dir          word    `json:"cwd"`
}

// The tools that write files, and those that run commands, by their names in
// any harness. A tool of an MCP server counts by the last part of its name.
var (
	editTools = []string{
		"Edit", "MultiEdit", "Write", "NotebookEdit", // Claude Code
		"write_file", "replace", "edit_file", "create_file", "delete_file", "move_file", // Gemini, MCP servers
		"StrReplace", "TabWrite", "Delete", "search_replace", "str_replace", // Cursor and others
		"edit", "write", // Pi
	}
	shellTools = []string{"Bash", "bash", "Shell", "shell", "local_shell", "shell_command", "exec_command", "run_shell_command", "run_terminal_cmd"}
)

func (in toolInput) targets(tool, dir string) []Target {
	if i := strings.LastIndex(tool, "__"); i >= 0 && strings.HasPrefix(tool, "mcp__") {
		tool = tool[i+2:]
	}
	for _, w := range []word{in.Directory, in.DirPath, in.Workdir, in.Dir} {
		if w != "" && slices.Contains(shellTools, tool) {
			dir = join(dir, string(w))
			break
		}
	}
	switch {
	case slices.Contains(shellTools, tool):
		return Writes(string(in.Command), dir)
	case tool == "apply_patch":
		return patched(string(in.Command)+"\n"+string(in.Patch)+"\n"+string(in.Input), dir)
	case !slices.Contains(editTools, tool):
		return nil
	}
	var out []Target
	for _, w := range []word{in.FilePath, in.NotebookPath, in.TargetFile, in.AbsolutePath, in.Path, in.Source, in.Destination} {
		if w != "" {
			out = append(out, Target{Path: join(dir, string(w))})
		}
	}
	return out
}

// patched returns the files that a patch in the form of Codex names.
func patched(text, dir string) (out []Target) {
	for line := range strings.Lines(text) {
		for _, head := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "} {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), head); ok && name != "" {
				out = append(out, Target{Path: join(dir, name)})
			}
		}
	}
	return out
}

// word is a text, whatever else may stand in its place.
type word string

func (w *word) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '"' {
		return nil
	}
	return json.Unmarshal(b, (*string)(w))
}

// words are those members of a list that are texts.
type words []string

func (ws *words) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		return nil
	}
	var list []word
	err := json.Unmarshal(b, &list)
	for _, w := range list {
		if w != "" {
			*ws = append(*ws, string(w))
		}
	}
	return err
}

// command is a command line, also where a harness gives its words.
type command string

func (c *command) UnmarshalJSON(b []byte) error {
	var list words
	if len(b) > 0 && b[0] == '[' {
		err := list.UnmarshalJSON(b)
		if n := len(list); n == 3 && strings.HasSuffix(list[1], "c") { // bash -lc "…"
			*c = command(list[2])
		} else {
			for i, w := range list {
				list[i] = quoteWord(w)
			}
			*c = command(strings.Join(list, " "))
		}
		return err
	}
	return (*word)(c).UnmarshalJSON(b)
}

func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
