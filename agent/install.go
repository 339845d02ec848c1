package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A File is one file of a project in which a harness finds us. Install and
// Remove change its text; both are done twice as well as once.
type File struct {
	Path string // relative to the root of the project
	What string // what we put there, for people

	entries []entry // in JSON
	empty   string  // the document that a file which was not there begins with
	block   *block  // in other text
	whole   string  // the file is all ours
}

// entry is a value in a JSON document: a member of an object, or an element of
// an array.
type entry struct {
	path  []string // the object or array around it; made where it is missing
	key   string   // of a member; empty: an element
	value string
	ours  func(json.RawMessage) bool // also one of an earlier version
}

// block is a part of a text between two marks.
type block struct{ begin, end, text string }

// Installable names the harnesses that can be set up.
func Installable() []string { return []string{"claude", "codex", "gemini", "cursor", "pi"} }

// Files are the files of a harness in a project.
func Files(harness string) ([]File, error) {
	agents := File{Path: "AGENTS.md", What: "a paragraph about tasklock", block: &block{"<!-- tasklock:begin -->", "<!-- tasklock:end -->", agentsText}}
	servers := []entry{{path: []string{"mcpServers"}, key: "tasklock", value: `{"command": "tasklock", "args": ["mcp"]}`}}
	switch harness {
	case "claude":
		return []File{
			{Path: ".claude/settings.json", What: "hooks", entries: hookEntries(harness, claudeHooks)},
			{Path: ".mcp.json", What: "the MCP server", entries: servers},
			agents,
		}, nil
	case "codex":
		return []File{
			{Path: ".codex/hooks.json", What: "hooks", entries: hookEntries(harness, codexHooks)},
			{Path: ".codex/config.toml", What: "the MCP server", block: &block{"# tasklock:begin", "# tasklock:end", "[mcp_servers.tasklock]\ncommand = \"tasklock\"\nargs = [\"mcp\"]"}},
			agents,
		}, nil
	case "gemini":
		return []File{
			{Path: ".gemini/settings.json", What: "hooks and the MCP server", entries: append(hookEntries(harness, geminiHooks), servers...)},
			agents,
		}, nil
	case "cursor":
		return []File{
			{Path: ".cursor/hooks.json", What: "hooks", entries: hookEntries(harness, cursorHooks), empty: "{\n  \"version\": 1\n}\n"},
			{Path: ".cursor/mcp.json", What: "the MCP server", entries: servers},
			agents,
		}, nil
	case "pi":
		return []File{{Path: ".pi/extensions/tasklock.ts", What: "an extension", whole: piExtension}, agents}, nil
	}
	return nil, fmt.Errorf("unknown harness %q; known are %s", harness, strings.Join(Installable(), ", "))
}

// hooked is an event and the tools it is about.
type hooked struct{ event, matcher string }

// WorktreeCreate is not among them: a hook there replaces git's own. Stop is
// not needed: tools and prompts are heartbeats enough.
var (
	claudeHooks = []hooked{
		{"SessionStart", ""},
		{"PreToolUse", "Edit|MultiEdit|Write|NotebookEdit|Bash|mcp__.*"},
		{"PostToolUse", ""},
		{"UserPromptSubmit", ""},
		{"SubagentStart", ""},
		{"SubagentStop", ""},
		{"SessionEnd", ""},
	}
	codexHooks = []hooked{
		{"SessionStart", ""},
		{"PreToolUse", "Bash|apply_patch|mcp__.*"},
		{"PostToolUse", ""},
		{"UserPromptSubmit", ""},
		{"SubagentStart", ""},
		{"SubagentStop", ""},
		{"SessionEnd", ""},
	}
	geminiHooks = []hooked{{"SessionStart", ""}, {"BeforeTool", "write_file|replace|run_shell_command"}, {"AfterTool", ""}, {"BeforeAgent", ""}, {"SessionEnd", ""}}
	cursorHooks = []hooked{
		{"sessionStart", ""},
		{"preToolUse", ""},
		{"beforeShellExecution", ""},
		{"postToolUse", ""},
		{"beforeSubmitPrompt", ""},
		{"subagentStart", ""},
		{"subagentStop", ""},
		{"sessionEnd", ""},
	}
)

// hookEntries are the events of a harness in its own form. Claude Code takes
// the words of a command, so that no shell is between; Gemini counts in
// milliseconds.
func hookEntries(harness string, events []hooked) (out []entry) {
	for _, e := range events {
		command := fmt.Sprintf("tasklock hook %s %s", harness, e.event)
		var value string
		switch harness {
		case "cursor":
			value = fmt.Sprintf(`{"command": %q}`, command)
		case "claude":
			value = fmt.Sprintf(`{"type": "command", "command": "tasklock", "args": ["hook", "claude", %q], "timeout": 5}`, e.event)
		case "gemini":
			value = fmt.Sprintf(`{"name": "tasklock", "type": "command", "command": %q, "timeout": 5000}`, command)
		default:
			value = fmt.Sprintf(`{"type": "command", "command": %q, "timeout": 5}`, command)
		}
		if harness != "cursor" {
			matcher := ""
			if e.matcher != "" {
				matcher = fmt.Sprintf(`"matcher": %q, `, e.matcher)
			}
			value = fmt.Sprintf(`{%s"hooks": [%s]}`, matcher, value)
		}
		out = append(out, entry{path: []string{"hooks", e.event}, value: value, ours: oursAlone})
	}
	return out
}

// oursAlone reports whether an element holds hooks of tasklock and of nobody
// else.
func oursAlone(raw json.RawMessage) bool {
	var e struct {
		Command string
		Args    []string
		Hooks   []struct {
			Command string
			Args    []string
		}
	}
	if json.Unmarshal(raw, &e) != nil {
		return false
	}
	mine := func(command string, args []string) bool {
		return strings.HasPrefix(command, "tasklock hook ") && len(strings.Fields(command)) == 4 || command == "tasklock" && len(args) > 0 && args[0] == "hook"
	}
	if len(e.Hooks) == 0 {
		return mine(e.Command, e.Args)
	}
	for _, h := range e.Hooks {
		if !mine(h.Command, h.Args) {
			return false
		}
	}
	return true
}

// blank is the document that a file which was not there begins with, and by
// which Remove knows that it was not.
func (f File) blank() string {
	if f.empty != "" {
		return f.empty
	}
	return "{\n}\n"
}

// Install returns the text with what is ours in it. Text that is not there is
// nil.
func (f File) Install(text []byte) ([]byte, error) {
	switch {
	case f.whole != "":
		if text != nil && !bytes.Contains(text, []byte(wholeMark)) {
			return nil, fmt.Errorf("%s is there and is not ours", f.Path)
		}
		return []byte(f.whole), nil
	case f.block != nil:
		return f.block.install(text), nil
	}
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte(f.blank())
	}
	for _, e := range f.entries {
		var err error
		if text, err = e.install(text); err != nil {
			return nil, fmt.Errorf("%s: %w; it is left as it is", f.Path, err)
		}
	}
	return text, nil
}

// Remove returns the text without what is ours; nil if nothing is left that was
// not.
func (f File) Remove(text []byte) ([]byte, error) {
	switch {
	case text == nil:
		return nil, nil
	case f.whole != "" && bytes.Contains(text, []byte(wholeMark)):
		return nil, nil
	case f.whole != "":
		return text, nil
	case f.block != nil:
		return f.block.remove(text), nil
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return text, nil
	}
	for _, e := range slices.Backward(f.entries) {
		var err error
		if text, err = e.remove(text); err != nil {
			return nil, fmt.Errorf("%s: %w; it is left as it is", f.Path, err)
		}
	}
	if string(text) == f.blank() {
		return nil, nil
	}
	return text, nil
}

func (e entry) install(text []byte) ([]byte, error) {
	for depth := range e.path { // make what is around it
		root, err := parseJSON(text)
		if err != nil {
			return nil, err
		}
		if root.at(e.path[:depth+1]...) == nil {
			fresh := "{}"
			if depth == len(e.path)-1 && e.key == "" {
				fresh = "[]"
			}
			around := root.at(e.path[:depth]...)
			if around.open != '{' {
				return nil, fmt.Errorf("%s is not an object", strings.Join(e.path[:depth], "."))
			}
			text = insertJSON(text, around, e.path[depth], fresh, depth)
		}
	}
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	n := root.at(e.path...)
	switch {
	case e.key != "" && n.open != '{' || e.key == "" && n.open != '[':
		return nil, fmt.Errorf("%s holds something else", strings.Join(e.path, "."))
	case e.key != "" && n.index(e.key) >= 0: // somebody's own entry is as good
		return text, nil
	case e.key == "":
		if i := e.find(text, n); i >= 0 {
			if sameJSON(text[n.items[i].start:n.items[i].end], []byte(e.value)) {
				return text, nil
			}
			if text, err = e.remove(text); err != nil { // of an earlier version
				return nil, err
			}
			return e.install(text)
		}
	}
	return insertJSON(text, n, e.key, e.value, len(e.path)), nil
}

// find is the place of our element in an array, or -1.
func (e entry) find(text []byte, n *jsonNode) int {
	return slices.IndexFunc(n.items, func(i *jsonNode) bool { return e.ours(text[i.start:i.end]) })
}

func (e entry) remove(text []byte) ([]byte, error) {
	root, err := parseJSON(text)
	if err != nil {
		return nil, err
	}
	n := root.at(e.path...)
	if n == nil {
		return text, nil
	}
	i := -1
	switch {
	case e.key != "" && n.open == '{':
		if i = n.index(e.key); i >= 0 && !sameJSON(text[n.items[i].start:n.items[i].end], []byte(e.value)) {
			return text, nil // not as we wrote it
		}
	case e.key == "" && n.open == '[':
		i = e.find(text, n)
	}
	if i < 0 {
		return text, nil
	}
	// What was made around it goes with it.
	for depth := len(e.path); depth > 0 && len(n.items) == 1; depth-- {
		n = root.at(e.path[:depth-1]...)
		i = n.index(e.path[depth-1])
	}
	return cutJSON(text, n, i), nil
}

// install puts the block at the end of the text, before its last newline, so
// that remove can tell what was there.
func (b *block) install(text []byte) []byte {
	whole := b.begin + "\n" + b.text + "\n" + b.end
	if from, to := b.find(text); from >= 0 {
		return bytes.Join([][]byte{text[:from], []byte(whole), text[to:]}, nil)
	}
	if len(text) == 0 {
		return []byte(whole + "\n")
	}
	at := len(bytes.TrimRight(text, "\n"))
	return bytes.Join([][]byte{text[:at], []byte("\n\n" + whole), text[at:]}, nil)
}

func (b *block) remove(text []byte) []byte {
	from, to := b.find(text)
	if from < 0 {
		return text
	}
	if from == 0 && len(bytes.TrimSpace(text[to:])) == 0 {
		return nil
	}
	if bytes.HasSuffix(text[:from], []byte("\n\n")) {
		from -= 2
	}
	return append(bytes.Clone(text[:from]), text[to:]...)
}

// find returns where the block begins and ends, or -1. Of a mark whose other
// half was lost, what follows is somebody's own text.
func (b *block) find(text []byte) (from, to int) {
	for at := 0; ; at = to {
		n := bytes.Index(text[at:], []byte(b.end))
		if n < 0 {
			return -1, -1
		}
		to = at + n + len(b.end)
		if n = bytes.LastIndex(text[at:to], []byte(b.begin)); n >= 0 {
			return at + n, to
		}
	}
}
