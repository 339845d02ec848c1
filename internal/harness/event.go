// Package harness knows the programs that run coding agents: the events that they
// give their hooks, the answers that they read, and the files of a project with
// their hooks, their MCP servers and their guidance.
//
// # Guarantee
//
// An event of any harness becomes one vocabulary ([Event]), and one denial becomes
// what that harness obeys ([Event.Deny]). Files are changed as text, one insertion
// at a time, so that [File.Remove] restores every byte.
//
// # Limit
//
// Harnesses change. What is known of their events was recorded from the real
// programs (testdata/events).
//
// # Failure
//
// A field of an unexpected type counts as missing, and an event without a meaning
// is a heartbeat. A malformed file is not changed.
package harness

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/identity"
	"github.com/tasklock/tasklock/internal/shellwrites"
)

// An Event is what a harness says to its hooks, in one vocabulary.
type Event struct {
	Harness string
	Name    string // in the harness's words
	What    What
	Session string // the harness's name of the session; empty: it gave none
	Agent   string // the subagent at work; empty: the session itself
	Dir     string // where it works; empty: not said
	Tool    string
	Targets []shellwrites.Target // what the tool would write
	Calls   [][]string           // the arguments of each tasklock command in a shell command
	Unsure  string               // why not all of a shell command could be read; empty: all was
	Cut     bool                 // the command has more than MaxCommand bytes: only its beginning was read

	// Borrowed means that the hook belongs to another harness: Cursor also runs
	// those of Claude.
	Borrowed bool

	command shellCall
}

// Caller is who works in the session that the event tells about.
func (e Event) Caller() identity.Session {
	return identity.Session{Harness: e.Harness, ID: e.Session, Agent: e.Agent}
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

// MaxCommand limits how much of a command line is read. Linux starts no program with
// a longer argument.
const MaxCommand = 128 << 10

// hookNames are the events of each harness that mean more than a heartbeat.
// Stop is missing because it fires at every turn.
var hookNames = map[string]map[string]What{
	"claude":   claudeNames,
	"codex":    claudeNames,
	"pi":       claudeNames, // by the extension that install writes
	"opencode": claudeNames, // by its plugin
	"gemini":   {"SessionStart": SessionStart, "BeforeTool": BeforeTool, "AfterTool": AfterTool, "SessionEnd": SessionEnd},
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

// Meaning is the meaning of an event by its name, even without its JSON.
func Meaning(harness, name string) What { return hookNames[harness][name] }

// payload is the JSON of all harnesses: each uses some of it. Fields of other
// types than expected count as missing.
type payload struct {
	SessionID      word            `json:"session_id"`
	ConversationID word            `json:"conversation_id"`
	AgentID        word            `json:"agent_id"`
	SubagentID     word            `json:"subagent_id"`
	CursorVersion  word            `json:"cursor_version"`
	Dir            word            `json:"cwd"`
	WorkingDir     word            `json:"working_directory"` // Cursor
	Roots          words           `json:"workspace_roots"`
	Tool           word            `json:"tool_name"`
	Input          json.RawMessage `json:"tool_input"`
	Command        json.RawMessage `json:"command"` // Cursor, before a shell command
}

// ParseEvent reads the JSON that a harness gives its hook of that name.
func ParseEvent(harness, name string, data []byte) (Event, error) {
	if _, known := hookNames[harness]; !known {
		return Event{}, unknown(harness)
	}
	e := Event{Harness: harness, Name: name, What: Meaning(harness, name)}
	var p payload
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return e, errNoJSON
	case data[0] != '{':
		return e, fmt.Errorf("the event is not a JSON object")
	}
	if err := decode(data, &p); err != nil {
		return e, fmt.Errorf("the event's JSON: %w", err)
	}
	e.noteCaller(p)
	if e.What != BeforeTool {
		return e, nil
	}
	err := e.noteWrites(p)
	return e, err
}

// noteCaller notes who works, and where.
func (e *Event) noteCaller(p payload) {
	e.Session, e.Agent, e.Dir, e.Tool = string(p.SessionID), string(p.AgentID), string(p.Dir), string(p.Tool)
	if e.Harness == "claude" && (p.ConversationID != "" || p.CursorVersion != "") {
		e.Harness, e.Borrowed = "cursor", true
	}
	if e.Harness == "cursor" && p.ConversationID != "" {
		e.Session = string(p.ConversationID)
	}
	e.Agent = cmp.Or(e.Agent, string(p.SubagentID))
	e.Dir = cmp.Or(e.Dir, string(p.WorkingDir))
	if e.Dir == "" && len(p.Roots) > 0 {
		e.Dir = p.Roots[0]
	}
}

// noteWrites notes what the tool that is about to run would write.
func (e *Event) noteWrites(p payload) error {
	dir := cmp.Or(e.Dir, ".") // else of the hook itself
	if e.Tool == "" && len(p.Command) > 0 {
		line, cut, err := commandLine(p.Command)
		if err != nil {
			return fmt.Errorf("the event's command: %w", err)
		}
		e.shell(line, dir)
		e.Cut = cut
		return nil
	}
	var in toolInput
	if len(p.Input) > 0 && p.Input[0] == '{' {
		if err := decode(p.Input, &in); err != nil {
			return fmt.Errorf("the event's tool_input: %w", err)
		}
	}
	if err := e.tool(in, dir); err != nil {
		return fmt.Errorf("the event's tool_input: %w", err)
	}
	if slices.Contains(shellTools, e.Tool) && !e.Cut {
		e.command = shellCall{dir: in.folder(dir), input: p.Input}
	}
	return nil
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

// commandLine is the command of a shell tool, or the beginning of one that is too
// long.
func commandLine(b []byte) (line string, cut bool, err error) {
	if cut = len(b) > MaxCommand && b[0] == '"'; cut {
		b = b[:MaxCommand]
		if i := bytes.LastIndexByte(b, '\\'); i >= len(b)-len(`\u0000`) && !escaped(b[:i]) {
			b = b[:i] // of what was cut through
		}
		b = append(slices.Clip(b), '"')
	}
	line, err = commandText(b)
	if len(line) > MaxCommand {
		line, cut = line[:MaxCommand], true
	}
	if cut { // the last word may be half a word
		line = line[:strings.LastIndexAny(line, "\n; ")+1]
	}
	return line, cut, err
}

// commandText is a command as a text, even if a harness gives a list of words.
func commandText(b []byte) (string, error) {
	if len(b) == 0 || b[0] != '[' {
		var one word
		err := one.UnmarshalJSON(b)
		return string(one), err
	}
	var list words
	err := list.UnmarshalJSON(b)
	if len(list) == 3 && strings.HasSuffix(list[1], "c") { // bash -lc "…"
		return list[2], err
	}
	for i, w := range list {
		list[i] = quoteWord(w)
	}
	return strings.Join(list, " "), err
}

func quoteWord(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
