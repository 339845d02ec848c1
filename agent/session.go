package agent

import "os"

// sessionVariable is where each harness's commands find the session that its
// hooks are told in JSON.
var sessionVariable = map[string]string{
	"claude": "CLAUDE_CODE_SESSION_ID", "codex": "CODEX_THREAD_ID", "gemini": "GEMINI_SESSION_ID", "cursor": "CURSOR_CONVERSATION_ID", "pi": "PI_SESSION_ID",
}

// Identity is who works in the session that an event tells about: the owner
// that its shell commands have too, or for a subagent a child of it.
func (e Event) Identity(in Input) Identity {
	env := in.Env
	if env == nil {
		env = os.Getenv
	}
	name := sessionVariable[e.Harness]
	in.Env = func(k string) string {
		if k == name && e.Session != "" && (e.Harness != "codex" || env(k) == "") {
			return e.Session
		}
		return env(k)
	}
	id := Identify(in)
	if e.Agent != "" {
		id.Owner += "/" + segment(e.Agent)
	}
	if id.PID == 0 {
		id.PID, _ = Harness(id)
	}
	return id
}

// NeedsOwner reports whether the harness's shell commands must name the owner
// themselves: a subagent has its parent's environment, and some harnesses give
// their commands no session.
func (e Event) NeedsOwner() bool {
	return e.Agent != "" || e.Harness == "gemini" || e.Harness == "cursor"
}
