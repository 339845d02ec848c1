package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// A harness is a program that lets a model work.
type harness struct {
	name  string
	ids   []string // variables that hold the session, the best first
	marks []string // variables that show the harness is there
	pid   string   // variable that holds its process
}

// harnesses, in the order in which their ids are looked for. The last one
// stands for those that only say what they are.
var harnesses = []harness{
	{name: "claude", ids: []string{"CLAUDE_CODE_SESSION_ID"}, marks: []string{"CLAUDECODE"}, pid: "CLAUDE_PID"},
	{name: "codex", ids: []string{"CODEX_THREAD_ID", "CODEX_SESSION_ID"}},
	{name: "pi", ids: []string{"PI_SESSION_ID"}},
	{name: "gemini", ids: []string{"GEMINI_SESSION_ID"}, marks: []string{"GEMINI_CLI"}}, // only hooks see the id
	{name: "cursor", ids: []string{"CURSOR_CONVERSATION_ID"}, marks: []string{"CURSOR_AGENT"}},
	{name: "opencode", marks: []string{"OPENCODE"}, pid: "OPENCODE_PID"},
	{name: "agent", marks: []string{"AI_AGENT"}},
}

// sighting is which harnesses the environment shows, in the table's order.
type sighting []found

type found struct {
	name string
	id   string // empty: it is there and names no session
	pid  int
}

func detect(env func(string) string) sighting {
	var s sighting
	for _, h := range harnesses {
		f := found{name: h.name}
		for _, v := range h.ids {
			if f.id = strings.TrimSpace(env(v)); f.id != "" {
				break
			}
		}
		if f.id == "" && !slices.ContainsFunc(h.marks, func(v string) bool { return set(env(v)) }) {
			continue
		}
		if h.pid != "" {
			if pid, err := strconv.Atoi(env(h.pid)); err == nil && pid > 1 {
				f.pid = pid
			}
		}
		s = append(s, f)
	}
	return s
}

// set reports whether a mark says yes.
func set(v string) bool { return v != "" && v != "0" && v != "false" }

func (s sighting) agent() bool { return len(s) > 0 }

// first names the harness that a warning is about.
func (s sighting) first() string {
	if len(s) == 0 {
		return ""
	}
	return s[0].name
}

// owner names the session. Where one agent started another both ids are in
// the environment, and which is the inner one cannot be seen; so all of them
// together are the name. Two agents that a third one started are then not
// taken for one.
func (s sighting) owner() string {
	var parts []string
	for _, f := range s {
		if f.id != "" {
			parts = append(parts, f.name+":"+segment(f.id))
		}
	}
	return strings.Join(parts, "/")
}

// session is the first id as its harness knows it.
func (s sighting) session() string {
	for _, f := range s {
		if f.id != "" {
			return f.id
		}
	}
	return ""
}

// pid is the process of the harness that owner belongs to. An owner that
// somebody chose for another purpose does not end with the session.
func (s sighting) pid(owner string) int {
	for _, f := range s {
		name := f.name + ":" + segment(f.id)
		if f.pid > 0 && (owner == name || strings.HasPrefix(owner, name+"/") || f.id == "" && strings.HasPrefix(owner, name)) {
			return f.pid
		}
	}
	return 0
}

// digest shortens an id that is too long to be part of a name.
func digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:16])
}
