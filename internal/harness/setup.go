package harness

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// A Setup says which harness is set up in a project, and how.
type Setup struct {
	Harness string
	Local   bool // for one person: files that git need not track
	Strict  bool // a hook that is missing or fails denies
	// Read returns a file of the project, or of the user's home with "~/" in front; nil: it is not there. Where the
	// harness reads guidance depends on what is there. A nil Read knows no file.
	Read func(name string) []byte
}

// Installable names the harnesses that have hooks, and so can be set up.
func Installable() []string { return []string{"claude", "codex", "gemini", "cursor", "pi", "opencode"} }

// mcpServer is the entry of most harnesses for our MCP server.
var mcpServer = []entry{{path: []string{"mcpServers"}, key: "tasklock", value: `{"command": "tasklock", "args": ["mcp"]}`}}

// Files are the files of a harness in a project.
func (s Setup) Files() ([]File, error) {
	if files := s.form(s.Local); files != nil {
		return files, nil
	}
	return nil, unknown(s.Harness)
}

func unknown(harness string) error {
	return fmt.Errorf("unknown harness %q; known are %s", harness, strings.Join(Installable(), ", "))
}

// form are the files for one person or for all; nil: the harness is unknown.
func (s Setup) form(local bool) []File {
	s.Local = local
	switch s.Harness {
	case "claude":
		settings := ".claude/settings.json"
		if s.Local {
			settings = ".claude/settings.local.json"
		}
		return s.with(
			File{Path: settings, What: "hooks", entries: s.hookEntries(claudeHooks)},
			File{Path: ".mcp.json", What: "the MCP server", ByHand: "claude mcp add --scope local tasklock -- tasklock mcp", entries: mcpServer},
		)
	case "codex":
		return s.with(
			File{Path: ".codex/hooks.json", What: "hooks", entries: s.hookEntries(codexHooks)},
			File{Path: ".codex/config.toml", What: "the MCP server", ByHand: "codex mcp add tasklock -- tasklock mcp", table: codexServer},
		)
	case "gemini":
		return s.with(File{Path: ".gemini/settings.json", What: "hooks and the MCP server", entries: append(s.hookEntries(geminiHooks), mcpServer...)})
	case "cursor":
		return s.with(
			File{Path: ".cursor/hooks.json", What: "hooks", entries: s.hookEntries(cursorHooks), empty: "{\n  \"version\": 1\n}\n"},
			File{Path: ".cursor/mcp.json", What: "the MCP server", entries: mcpServer},
		)
	case "pi":
		return s.with(File{Path: ".pi/extensions/tasklock.ts", What: "an extension", whole: s.module(piExtension)})
	case "opencode":
		config := "opencode.json"
		if s.read(config) == nil && s.read(config+"c") != nil {
			config += "c"
		}
		return s.with(
			File{Path: ".opencode/plugins/tasklock.js", What: "a plugin", whole: s.module(openCodePlugin)},
			File{Path: config, What: "the MCP server", empty: "{\n  \"$schema\": \"https://opencode.ai/config.json\"\n}\n", entries: []entry{
				{path: []string{"mcp"}, key: "tasklock", value: `{"type": "local", "command": ["tasklock", "mcp"]}`},
			}},
		)
	}
	return nil
}

func (s Setup) with(files ...File) []File { return append(files, s.guidance()...) }

func (s Setup) read(name string) []byte {
	if s.Read == nil {
		return nil
	}
	return s.Read(name)
}

// module is the text of an extension. It holds how strict it is, because tasklock
// may be missing when it runs.
func (s Setup) module(text string) string {
	return fmt.Sprintf("%s %q\n", wholeMark, "tasklock agents install "+s.Harness) + strings.Replace(text, "STRICT", fmt.Sprint(s.Strict), 1)
}

// hooks are the events of a harness that tasklock serves. Of the one before a tool,
// only those of some tools.
type hooks struct{ before, tools, events string }

// WorktreeCreate is not among them: a hook there replaces git's own. Stop is
// not needed: tools and prompts are heartbeats enough.
var (
	claudeHooks = hooks{"PreToolUse", "Edit|MultiEdit|Write|NotebookEdit|Bash|mcp__.*", "SessionStart PreToolUse PostToolUse UserPromptSubmit SubagentStart SubagentStop SessionEnd"}
	codexHooks  = hooks{"PreToolUse", "Bash|apply_patch|mcp__.*", claudeHooks.events}
	geminiHooks = hooks{"BeforeTool", "write_file|replace|run_shell_command|mcp_.*", "SessionStart BeforeTool AfterTool BeforeAgent SessionEnd"}
	cursorHooks = hooks{events: "sessionStart preToolUse beforeShellExecution postToolUse beforeSubmitPrompt subagentStart subagentStop sessionEnd"}
)

// hookEntries are the events of a harness in its own form. Gemini counts
// milliseconds; Claude Code can deny when a hook is too slow.
func (s Setup) hookEntries(h hooks) (out []entry) {
	for event := range strings.FieldsSeq(h.events) {
		value := "{"
		if event == h.before {
			value += fmt.Sprintf(`"matcher": %q, `, h.tools)
		}
		command := jsonText(s.hookCommand(event))
		switch {
		case s.Harness == "cursor":
			value = fmt.Sprintf(`{"command": %s}`, command)
		case s.Harness == "gemini":
			value += fmt.Sprintf(`"hooks": [{"name": "tasklock", "type": "command", "command": %s, "timeout": 5000}]}`, command)
		case s.Harness == "claude" && s.denies(event):
			value += fmt.Sprintf(`"hooks": [{"type": "command", "command": %s, "timeout": 5, "onFailure": "block"}]}`, command)
		default:
			seconds := 5
			if s.Harness == "codex" && Meaning(s.Harness, event) == SessionEnd {
				seconds = 3 // it warns of more at each start
			}
			value += fmt.Sprintf(`"hooks": [{"type": "command", "command": %s, "timeout": %d}]}`, command, seconds)
		}
		out = append(out, entry{path: []string{"hooks", event}, value: value})
	}
	return out
}

func (s Setup) denies(event string) bool { return s.Strict && Meaning(s.Harness, event) == BeforeTool }

// notInstalled is what a person without tasklock reads, once a session.
const notInstalled = "tasklock is not installed on this machine, so nobody checks here which files others have locked"

// hookCommand is the shell command of an event. Somebody who shares the project and
// has no tasklock gets one line when a session starts, not an error at every
// event. sh, bash, zsh and fish all understand the command.
func (s Setup) hookCommand(event string) string {
	run := "tasklock hook " + s.Harness + " " + event
	const found = "command -v tasklock >/dev/null 2>&1 || "
	switch {
	case s.denies(event):
		return found + "echo 'tasklock is not installed on this machine, and hooks.strict denies what cannot be judged' >&2; " + run + " || exit 2"
	case Meaning(s.Harness, event) == SessionStart:
		field := "systemMessage"
		if s.Harness == "cursor" {
			field = "additional_context"
		}
		return fmt.Sprintf(`%sexec echo '{"%s":"%s"}'; exec %s`, found, field, notInstalled, run)
	}
	return found + "exit 0; exec " + run
}

// jsonText is a text in JSON, with < and > as they are.
func jsonText(s string) string { return strings.TrimSpace(string(encode(s))) }

// ourCommand matches the commands of hooks that this version or an earlier one
// has written, and nothing that goes on after them.
var ourCommand = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(command -v tasklock >/dev/null 2>&1 \|\| [^;|]*; )?(exec )?tasklock hook [a-z]+ [A-Za-z]+( \|\| exit 2)?$`)
})

// oursIn finds the hooks of an element that tasklock wrote. alone: the element holds
// no others. A harness may add a person's hook to our element.
func oursIn(raw json.RawMessage) (mine []int, alone bool) {
	type handler struct {
		Command string
		Args    []string
	}
	var e struct {
		handler
		Hooks []handler
	}
	if json.Unmarshal(raw, &e) != nil {
		return nil, false
	}
	is := func(h handler) bool {
		return ourCommand().MatchString(h.Command) || h.Command == "tasklock" && len(h.Args) > 0 && h.Args[0] == "hook"
	}
	for i, h := range e.Hooks {
		if is(h) {
			mine = append(mine, i)
		}
	}
	return mine, len(mine) == len(e.Hooks) && (len(mine) > 0 || is(e.handler))
}

// withoutOthers is an element without the hooks that are not ours.
func withoutOthers(raw json.RawMessage) json.RawMessage {
	mine, alone := oursIn(raw)
	var e map[string]json.RawMessage
	var hooks, kept []json.RawMessage
	if alone || json.Unmarshal(raw, &e) != nil || json.Unmarshal(e["hooks"], &hooks) != nil {
		return raw
	}
	for _, i := range mine {
		kept = append(kept, hooks[i])
	}
	e["hooks"] = encode(kept)
	return encode(e)
}
