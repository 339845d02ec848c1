// Package identity says who calls: the coding agent, CI job, pod, terminal or process
// that a command works for.
//
// # Guarantee
//
// The owner that [Identify] returns is the same for all commands of one session and
// differs between two sessions, even of one person on one machine. Name and e-mail
// address from git are a label to show ([Label]), never the owner: two agents of one
// person would be one, and would share their locks.
//
// # Limit
//
// A caller without an id (a cron job, an agent whose harness gives its commands none)
// gets the next step of the chain, at worst a random name that the next command does
// not have. [Identity.Warning] then says what to do. This package cannot distinguish
// subagents that share their parent's environment: the hook before a tool puts their
// names into their commands (package rewrite).
//
// # Failure
//
// Nothing here fails or waits: an unreadable fact is absent, and the chain goes on.
// A given owner is taken as it is; package lease decides whether it is valid.
package identity

import (
	"cmp"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
)

// Input is what the caller said about itself.
type Input struct {
	Flag   string              // --owner
	Config string              // owner in a configuration file
	Env    func(string) string // the environment
}

// Identity is who is calling.
type Identity struct {
	Owner   string // whom locks belong to
	Source  string // the step of the chain that gave it, as in Step.Source
	Label   string // for people; empty until the caller fills it in, see Label
	Session string // the harness's own name of the session, if it gives one
	Agent   bool   // a coding agent is at work, with or without an id
	PID     int    // the process whose death ends the session; 0: unknown
	Warning string // why the owner will not do, and what to do about it
	Remedy  string // the command that helps, where there is a warning
	// Proposed is the name that a warning proposes to an agent's commands without
	// one. Hooks, guard and server of the same process know it: locks under it are
	// the session's own. Empty: there is none, or several sessions.
	Proposed string
	Chain    []Step // every step in order of precedence, the one used marked
}

// A Step is one source of an owner. Value is empty if it had none.
type Step struct {
	Source string `json:"source"`
	Value  string `json:"value"`
	Used   bool   `json:"used"`
}

// Sources that callers may need to tell apart.
const (
	FromFlag     = "--owner"
	FromEnv      = "TASKLOCK_OWNER"
	FromConfig   = "configuration"
	FromHarness  = "agent session"
	FromCI       = "CI job"
	FromPod      = "pod"
	FromTerminal = "terminal"
	FromProcess  = "process"
)

// Identify finds the owner. It is the only function that does: the shell commands of
// a session, its hooks, its MCP server and git's guard have one name because all of
// them call it. The first of these counts: --owner, the session of a coding agent
// (see [sighting.owner] for an inherited name), TASKLOCK_OWNER, the configuration,
// the CI job, the pod, the terminal and, if all else is missing, this process.
func Identify(in Input) Identity { return identify(in, thisMachine) }

// machine is what Identify asks the system; tests replace it.
type machine struct {
	name, boot, user       func() string
	terminal, sessionStart func() string
	process                func() string
	above                  func(env func(string) string) []Note // what hooks noted of the processes above
	harness                func() int                           // the nearest process of a harness, or 0
}

var thisMachine = machine{
	name: host.Name, boot: host.BootID, user: userName,
	terminal: host.Terminal, sessionStart: host.SessionStart,
	process: sync.OnceValue(func() string { return fmt.Sprintf("%s-%d-%s", segment(host.Name()), os.Getpid(), lease.NewID()) }),
	above:   notesAbove,
	harness: func() int { pid, _, _ := nearest(); return pid },
}

func identify(in Input, m machine) Identity {
	env := in.Env
	above := m.above(env)
	seen := detect(env, above)
	inherited := env("TASKLOCK_OWNER")
	id := Identity{Agent: seen.agent(), Session: seen.session()}
	id.Chain = []Step{
		{Source: FromFlag, Value: in.Flag},
		{Source: FromHarness, Value: seen.owner(inherited, env("TASKLOCK_LEASE"))},
		{Source: FromEnv, Value: inherited},
		{Source: FromConfig, Value: in.Config},
		{Source: FromCI, Value: ciJob(env)},
		{Source: FromPod, Value: pod(env, m)},
		{Source: FromTerminal, Value: terminal(m)},
		{Source: FromProcess, Value: m.process()},
	}
	for i := range id.Chain {
		if step := &id.Chain[i]; step.Value != "" {
			step.Used = true
			id.Owner, id.Source = step.Value, step.Source
			break
		}
	}
	if chosen := cmp.Or(inherited, in.Config); id.Source == FromHarness && !partOf(id.Owner, chosen) && lease.CheckOwner(chosen) == nil {
		id.Label = chosen // the name of a person, say: it is worth showing
	}
	id.PID = seen.pid(id.Owner, m.harness)
	id.Proposed = proposed(seen, above, m)
	id.Warning, id.Remedy = warning(id, seen, above)
	return id
}

// warning tells a caller without an id how to get one. An owner that somebody chose,
// or that a harness or CI system gave, needs none.
func warning(id Identity, seen sighting, above []Note) (text, remedy string) {
	name := seen.nameless()
	switch {
	case id.Source != FromTerminal && id.Source != FromProcess && id.Source != FromPod:
		return "", ""
	case len(sessionsOf(above, name)) > 1:
		return "several sessions of " + name + " live in one process, so nobody can tell whose command this is; " +
			"use in every command the one that the start of this session named: --owner " + strings.Join(sessionsOf(above, name), " or --owner "), chooseName
	case seen.agent():
		own := cmp.Or(id.Proposed, name+":NAME")
		return name + " gives its commands no session id, so other sessions may count as this one, or the next command as another; " +
			"use in every command of this session: --owner " + own, "export TASKLOCK_OWNER=" + own
	case id.Source == FromProcess:
		return "nothing names this session, so the next command will be another owner and cannot release what this one takes; " +
			"run: " + chooseName + ", or keep the lock while a command runs: tasklock run KEY -- COMMAND", chooseName
	}
	return "", ""
}

const chooseName = "export TASKLOCK_OWNER=NAME"

// proposed is a name for all that runs in the session of an agent.
func proposed(seen sighting, above []Note, m machine) string {
	if !seen.agent() {
		return ""
	}
	name := cmp.Or(seen.nameless(), seen[len(seen)-1].name)
	id := lasting(m)
	if id == "" || len(sessionsOf(above, name)) > 1 {
		return ""
	}
	return name + ":" + id
}

// lasting is an id for every command of a session: that of the process of its
// harness, else of its terminal. Empty: there is none.
func lasting(m machine) string {
	if p, err := host.Find(m.harness()); err == nil {
		return digest(p.Boot + p.NS + p.Start + strconv.Itoa(p.PID))[len("sha256-"):][:12]
	}
	if t := terminal(m); t != "" {
		return digest(t)[len("sha256-"):][:12]
	}
	return ""
}

// ciJob names one execution of one job. The legs of a GitHub matrix share run,
// attempt and job, so the runner is part of the name.
func ciJob(env func(string) string) string {
	if run := env("GITHUB_RUN_ID"); run != "" {
		name := "github:" + segment(run) + "-" + segment(cmp.Or(env("GITHUB_RUN_ATTEMPT"), "1"))
		if job := env("GITHUB_JOB"); job != "" {
			name += "-" + segment(job)
		}
		if runner := env("RUNNER_NAME"); runner != "" {
			name += "@" + segment(runner)
		}
		return name
	}
	if job := env("CI_JOB_ID"); job != "" {
		return "gitlab:" + segment(job)
	}
	if job := env("BUILDKITE_JOB_ID"); job != "" {
		return "buildkite:" + segment(job)
	}
	return ""
}

// pod names the Kubernetes pod we are in. Pods of one node share its boot id,
// pods of one name follow each other: only both together are one pod's.
func pod(env func(string) string, m machine) string {
	if uid := env("POD_UID"); uid != "" {
		return "pod:" + segment(uid)
	}
	if env("KUBERNETES_SERVICE_HOST") == "" || m.boot() == "" {
		return ""
	}
	return "pod:" + segment(m.name()) + "@" + segment(m.boot())
}

// terminal names the session of this terminal. The start time of its leader
// distinguishes it from an earlier one on the same device; without it there is no
// unique name.
func terminal(m machine) string {
	tty := m.terminal()
	if tty == "" {
		return ""
	}
	start := m.sessionStart()
	if start == "" {
		return ""
	}
	return segment(m.user()) + "@" + segment(m.name()) + ":" + segment(tty) + "@" + segment(start)
}

func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// maxSegment bounds one id, so that all of them together can be an owner.
const maxSegment = 120

// segment turns a foreign id into one part of an owner's name: "/" would make it a
// child. Different ids stay different.
func segment(id string) string {
	var b strings.Builder
	for _, r := range []byte(id) {
		if r == '/' || r == '%' || r <= ' ' || r >= 0x7f {
			fmt.Fprintf(&b, "%%%02X", r)
		} else {
			b.WriteByte(r)
		}
	}
	if b.Len() > maxSegment {
		return digest(id)
	}
	return b.String()
}
