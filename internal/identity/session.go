package identity

import (
	"cmp"

	"github.com/tasklock/tasklock/internal/host"
)

// A Session is a session as a harness names it to its hooks.
type Session struct {
	Harness string
	ID      string // empty: the harness named none
	Agent   string // the subagent at work; empty: the session itself
}

// Name is the session as a part of an owner's name.
func (s Session) Name() string { return sessionName(s.Harness, s.ID) }

func sessionName(harness, id string) string { return harness + ":" + segment(id) }

// Identify is [Identify] for the session: the owner that its shell commands have too,
// or for a subagent a child of it.
func (s Session) Identify(in Input) Identity {
	env := in.Env
	in.Env = func(k string) string {
		switch {
		case s.ID == "":
		case k == sessionVariable(s.Harness):
			return s.ID
		case s.Harness == "codex" && k == "CODEX_THREAD_ID": // also in the shell of a subagent
			return cmp.Or(s.Agent, s.ID)
		}
		return env(k)
	}
	id := Identify(in)
	if s.Agent != "" && (s.Harness != "codex" || s.ID == "") {
		id.Owner += "/" + segment(s.Agent)
	}
	return id
}

// NeedsOwner reports whether the session's shell commands must name the owner
// themselves. A subagent has its parent's environment (except in Codex and
// OpenCode), Cursor gives its commands no session, and those of Gemini find one
// only if a note says so.
func (s Session) NeedsOwner(in Input) bool {
	switch {
	case s.Agent != "":
		return s.Harness != "codex" && s.Harness != "opencode"
	case s.Harness == "gemini":
		env := in.Env
		in.Env = func(k string) string {
			if k == sessionVariable(s.Harness) { // which only hooks have
				return ""
			}
			return env(k)
		}
		return Identify(in).Owner != s.Identify(in).Owner
	}
	return s.Harness == "cursor"
}

// Note is about the process that the session lives in. The nearest process of a
// harness may be that of another one, in which this one was started and cannot be
// recognised.
func (s Session) Note(env func(string) string) (Note, error) {
	pid, harness, _ := nearest()
	if harness != s.Harness {
		pid = processOf(env, s.Harness)
	}
	p, err := host.Find(pid)
	return Note{Harness: s.Harness, Session: s.ID, Process: p}, err
}

// IdentifyServer is [Identify] for a server that its harness keeps from one session to
// the next: a hook's note is newer than the environment of the server. Without a
// session, the server has the name that the warning proposes to its shell commands.
func IdentifyServer(in Input) Identity { return identifyServer(in, thisMachine) }

func identifyServer(in Input, m machine) Identity {
	env, above := in.Env, m.above(in.Env)
	in.Env = func(k string) string {
		for _, n := range above {
			if k == sessionVariable(n.Harness) && sole(above, n.Harness) == n {
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
