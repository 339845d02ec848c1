package agent

// sessionVariable is where each harness's commands find the session; hooks get
// the same id in JSON.
var sessionVariable = map[string]string{
	"claude": "CLAUDE_CODE_SESSION_ID", "codex": "CODEX_SESSION_ID", "gemini": "GEMINI_SESSION_ID", "cursor": "CURSOR_CONVERSATION_ID",
	"pi": "PI_SESSION_ID", "opencode": "OPENCODE_SESSION_ID",
}

// Identity is who works in the session that an event tells about: the owner
// that its shell commands have too, or for a subagent a child of it.
func (e Event) Identity(in Input) Identity {
	env := in.Env
	in.Env = func(k string) string {
		switch {
		case e.Session == "":
		case k == sessionVariable[e.Harness]:
			return e.Session
		case e.Harness == "codex" && k == "CODEX_THREAD_ID": // also in the shell of a subagent
			return or(e.Agent, e.Session)
		}
		return env(k)
	}
	id := Identify(in)
	if e.Agent != "" && (e.Harness != "codex" || e.Session == "") {
		id.Owner += "/" + segment(e.Agent)
	}
	return id
}

// NeedsOwner reports whether the harness's shell commands must name the owner
// themselves: a subagent has its parent's environment (other than in Codex and
// OpenCode), Cursor gives its commands
// no session, and those of Gemini have one only if a note says so.
func (e Event) NeedsOwner(in Input) bool {
	switch {
	case e.Agent != "":
		return e.Harness != "codex" && e.Harness != "opencode"
	case e.Harness == "gemini":
		env := in.Env
		in.Env = func(k string) string {
			if k == sessionVariable[e.Harness] { // which only hooks have
				return ""
			}
			return env(k)
		}
		return Identify(in).Owner != e.Identity(in).Owner
	}
	return e.Harness == "cursor"
}

// IdentifyServer is [Identify] for a server that its harness keeps from one session
// to the next: what a hook has noted of the harness is newer than the environment
// that the server was started with. Where no session can be found, the server has
// the name that the warning proposes to its shell commands.
func IdentifyServer(in Input) Identity { return identifyServer(in, thisMachine) }

func identifyServer(in Input, m machine) Identity {
	env, above := in.Env, m.above(in.Env)
	in.Env = func(k string) string {
		for _, n := range above {
			if k == sessionVariable[n.Harness] && sole(above, n.Harness) == n {
				return n.Session
			}
		}
		return env(k)
	}
	id := identify(in, m)
	if id.Warning != "" && id.Proposed != "" {
		id.Owner = id.Proposed
	}
	return id
}
