package identity

import (
	"cmp"
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

	thread string // variable that holds the id of a subagent, or that of the session
}

// harnesses, in the order in which we look for their ids. The last one is any harness
// that only says that it is one.
var harnesses = []harness{
	{name: "claude", ids: []string{"CLAUDE_CODE_SESSION_ID"}, marks: []string{"CLAUDECODE"}, pid: "CLAUDE_PID"},
	{name: "codex", ids: []string{"CODEX_SESSION_ID", "CODEX_THREAD_ID"}, thread: "CODEX_THREAD_ID"},
	{name: "pi", ids: []string{"PI_SESSION_ID"}},
	{name: "gemini", ids: []string{"GEMINI_SESSION_ID"}, marks: []string{"GEMINI_CLI"}}, // only hooks see the id
	{name: "cursor", ids: []string{"CURSOR_CONVERSATION_ID"}, marks: []string{"CURSOR_AGENT"}},
	{name: "opencode", ids: []string{"OPENCODE_SESSION_ID"}, marks: []string{"OPENCODE"}, pid: "OPENCODE_PID"},
	{name: "agent", marks: []string{"AI_AGENT"}},
}

// sighting is the visible harnesses, in the table's order.
type sighting []found

type found struct {
	name   string
	id     string // empty: it is there and names no session
	thread string // a subagent that has an id of its own
	pid    int
}

// detect looks at the environment and at what the hooks of the harnesses above
// this process have noted.
func detect(env func(string) string, above []Note) sighting {
	var s sighting
	for _, h := range harnesses {
		f := found{name: h.name, id: first(env, h.ids), pid: processOf(env, h.name)}
		if f.id != "" && h.thread != "" {
			f.thread = strings.TrimSpace(env(h.thread))
		}
		if n := sole(above, h.name); f.id == "" && n.Session != "" || f.pid == 0 && n.Session == f.id {
			f.id, f.pid = n.Session, n.Process.PID
		}
		if f.id != "" || slices.ContainsFunc(h.marks, func(v string) bool { return set(env(v)) }) {
			s = append(s, f)
		}
	}
	return s
}

// sessionVariable is where a harness's commands find the session; empty: nowhere.
// Hooks get the same id in JSON.
func sessionVariable(name string) string {
	for _, h := range harnesses {
		if h.name == name && len(h.ids) > 0 {
			return h.ids[0]
		}
	}
	return ""
}

// processOf is the process that a harness names in its variable; 0 if in none.
func processOf(env func(string) string, name string) int {
	for _, h := range harnesses {
		if pid, err := strconv.Atoi(env(h.pid)); h.name == name && h.pid != "" && err == nil && pid > 1 {
			return pid
		}
	}
	return 0
}

func first(env func(string) string, names []string) string {
	for _, v := range names {
		if id := strings.TrimSpace(env(v)); id != "" {
			return id
		}
	}
	return ""
}

// set reports whether a mark is set.
func set(v string) bool { return v != "" && v != "0" && v != "false" }

func (s sighting) agent() bool { return len(s) > 0 }

// nameless is the harness that a warning is about: one that names no session.
func (s sighting) nameless() string {
	for _, f := range s {
		if f.id == "" {
			return f.name
		}
	}
	return ""
}

// names are those of the sessions, as parts of an owner's name.
func (s sighting) names() (out []string) {
	for _, f := range s {
		switch {
		case f.id == "":
		case f.thread == "" || f.thread == f.id:
			out = append(out, sessionName(f.name, f.id))
		default:
			out = append(out, sessionName(f.name, f.id)+"/"+segment(f.thread))
		}
	}
	return out
}

// owner names the session, given the name and the lease that it inherited. If one
// agent started another, both ids are visible, but not which is the inner one; so
// the name has all of them. Then two agents that a third one started differ.
//
// An inherited name counts if it is that of this session or of a part of it, or if a
// command under a lease inherited both: such a command may use what the lease holds.
// Any other name belongs to somebody else, often to all that a person starts.
func (s sighting) owner(inherited, lease string) string {
	names := s.names()
	if len(names) == 0 {
		return ""
	}
	rest := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return partOf(inherited, name) })
	switch {
	case inherited != "" && len(rest) == 0:
		return inherited
	case inherited != "" && lease != "":
		return inherited + "/" + strings.Join(rest, "/")
	}
	return strings.Join(names, "/")
}

// partOf reports whether owner is of that name or below it.
func partOf(owner, name string) bool { return strings.Contains("/"+owner+"/", "/"+name+"/") }

// session is the first id as its harness knows it.
func (s sighting) session() string {
	for _, f := range s {
		if f.id != "" {
			return f.id
		}
	}
	return ""
}

// pid is the process of the harness that owner belongs to. An owner that somebody
// chose for another purpose does not end with the session. Of several sessions the
// nearest to this process counts.
func (s sighting) pid(owner string, nearest func() int) int {
	var mine []found
	for _, f := range s {
		if f.id == "" && strings.HasPrefix(owner, f.name+":") || f.id != "" && partOf(owner, sessionName(f.name, f.id)) {
			mine = append(mine, f)
		}
	}
	if len(mine) == 0 {
		return 0
	}
	if len(mine) == 1 && mine[0].pid > 0 {
		return mine[0].pid
	}
	return cmp.Or(nearest(), mine[0].pid)
}

// digest shortens an id that is too long to be part of a name.
func digest(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:16])
}
