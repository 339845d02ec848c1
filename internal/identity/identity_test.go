package identity

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/lease"
)

func fixed(s string) func() string { return func() string { return s } }

// desk is a terminal on a machine that knows its boot.
var desk = machine{
	name: fixed("box"), boot: fixed("b00t"), user: fixed("ann"),
	terminal: fixed("pts-3"), sessionStart: fixed("4711"), process: fixed("box-42-rnd"),
	above: noNotes, harness: noHarness,
}

func noNotes(func(string) string) []Note { return nil }
func noHarness() int                     { return 0 }

// cron is the same machine without a terminal.
var cron = machine{
	name: fixed("box"), boot: fixed("b00t"), user: fixed("ann"),
	terminal: fixed(""), sessionStart: fixed("4711"), process: fixed("box-42-rnd"),
	above: noNotes, harness: noHarness,
}

// noted is that desk under processes of harnesses whose hooks have left notes.
func noted(notes ...Note) machine {
	m := desk
	m.above = func(func(string) string) []Note { return notes }
	m.harness = func() int { return 99 }
	return m
}

func note(harness, session string, pid int) Note {
	return Note{Harness: harness, Session: session, Process: host.Process{PID: pid}}
}

func TestChain(t *testing.T) {
	type env map[string]string
	kube := env{"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
	lost := desk
	lost.sessionStart = fixed("")
	noBoot := cron
	noBoot.boot = fixed("")
	for _, c := range []struct {
		name          string
		flag, config  string
		env           env
		m             machine
		owner, source string
		agent         bool
		pid           int
		session, warn string // warn: a part of the warning, empty for none
		label         string
	}{
		{name: "terminal", m: desk, owner: "ann@box:pts-3@4711", source: FromTerminal},
		{name: "terminal without leader", m: lost, owner: "box-42-rnd", source: FromProcess, warn: "export TASKLOCK_OWNER="},
		{name: "cron", m: cron, owner: "box-42-rnd", source: FromProcess, warn: "tasklock run KEY"},
		{name: "flag first", flag: "a/b", config: "c", env: env{"TASKLOCK_OWNER": "e"}, m: desk, owner: "a/b", source: FromFlag},
		{name: "then the session", config: "c", env: env{"TASKLOCK_OWNER": "e/f", "PI_SESSION_ID": "t"}, m: desk, owner: "pi:t", source: FromHarness, agent: true, session: "t", label: "e/f"},
		{name: "then environment", config: "c", env: env{"TASKLOCK_OWNER": "e/f", "CI_JOB_ID": "7"}, m: desk, owner: "e/f", source: FromEnv},
		{name: "then configuration", config: "c", env: env{"CI_JOB_ID": "7"}, m: desk, owner: "c", source: FromConfig},
		{name: "the configuration of a person", config: "me", env: env{"PI_SESSION_ID": "t"}, m: desk, owner: "pi:t", source: FromHarness, agent: true, session: "t", label: "me"},
		{
			name: "claude", env: env{"CLAUDE_CODE_SESSION_ID": "s-1", "CLAUDECODE": "1", "CLAUDE_PID": "77", "CI_JOB_ID": "9"}, m: desk,
			owner: "claude:s-1", source: FromHarness, agent: true, pid: 77, session: "s-1",
		},
		{
			name: "a session that named itself", env: env{"TASKLOCK_OWNER": "claude:s-1", "CLAUDE_CODE_SESSION_ID": "s-1", "CLAUDE_PID": "77"}, m: desk,
			owner: "claude:s-1", source: FromHarness, agent: true, pid: 77, session: "s-1",
		},
		{
			name: "a subagent of claude", env: env{"TASKLOCK_OWNER": "claude:s-1/a2", "CLAUDE_CODE_SESSION_ID": "s-1", "CLAUDE_PID": "77"}, m: desk,
			owner: "claude:s-1/a2", source: FromHarness, agent: true, pid: 77, session: "s-1",
		},
		{
			name: "under a run of the session", env: env{"TASKLOCK_OWNER": "claude:s-1/r/cmd", "TASKLOCK_LEASE": "l", "CLAUDE_CODE_SESSION_ID": "s-1"}, m: desk,
			owner: "claude:s-1/r/cmd", source: FromHarness, agent: true, session: "s-1",
		},
		{
			name: "claude under a run", env: env{"TASKLOCK_OWNER": "ci/cmd", "TASKLOCK_LEASE": "l", "CLAUDE_CODE_SESSION_ID": "s-1", "CLAUDE_PID": "77"}, m: desk,
			owner: "ci/cmd/claude:s-1", source: FromHarness, agent: true, pid: 77, session: "s-1",
		},
		{
			name: "a run of that claude", env: env{"TASKLOCK_OWNER": "ci/cmd/claude:s-1/r/cmd", "TASKLOCK_LEASE": "l", "CLAUDE_CODE_SESSION_ID": "s-1"}, m: desk,
			owner: "ci/cmd/claude:s-1/r/cmd", source: FromHarness, agent: true, session: "s-1",
		},
		{
			name: "claude under a run of claude", env: env{"TASKLOCK_OWNER": "claude:s-1/r/cmd", "TASKLOCK_LEASE": "l", "CLAUDE_CODE_SESSION_ID": "s-2"}, m: desk,
			owner: "claude:s-1/r/cmd/claude:s-2", source: FromHarness, agent: true, session: "s-2",
		},
		{
			name: "codex under a run of claude", env: env{"TASKLOCK_OWNER": "claude:s-1/r/cmd", "TASKLOCK_LEASE": "l", "CLAUDE_CODE_SESSION_ID": "s-1", "CODEX_SESSION_ID": "t"}, m: desk,
			owner: "claude:s-1/r/cmd/codex:t", source: FromHarness, agent: true, session: "s-1",
		},
		{
			name: "a name from a profile", env: env{"TASKLOCK_OWNER": "me", "CLAUDE_CODE_SESSION_ID": "s-1", "CLAUDE_PID": "77"}, m: desk,
			owner: "claude:s-1", source: FromHarness, agent: true, pid: 77, session: "s-1", label: "me",
		},
		{
			name: "claude inside of claude", env: env{"TASKLOCK_OWNER": "claude:s-12", "CLAUDE_CODE_SESSION_ID": "s-1", "CLAUDE_PID": "77"}, m: desk,
			owner: "claude:s-1", source: FromHarness, agent: true, pid: 77, session: "s-1", label: "claude:s-12",
		},
		{name: "an old claude", env: env{"CLAUDECODE": "1"}, m: cron, owner: "box-42-rnd", source: FromProcess, agent: true, warn: "--owner claude:"},
		{name: "there is no CLAUDE_SESSION_ID", env: env{"CLAUDE_SESSION_ID": "x"}, m: desk, owner: "ann@box:pts-3@4711", source: FromTerminal},
		{name: "bad pid", env: env{"CLAUDE_CODE_SESSION_ID": "s", "CLAUDE_PID": "-1"}, m: desk, owner: "claude:s", source: FromHarness, agent: true, session: "s"},
		{name: "codex", env: env{"CODEX_THREAD_ID": "s", "CODEX_SESSION_ID": "s"}, m: desk, owner: "codex:s", source: FromHarness, agent: true, session: "s"},
		{name: "a subagent of codex", env: env{"CODEX_THREAD_ID": "t", "CODEX_SESSION_ID": "s"}, m: desk, owner: "codex:s/t", source: FromHarness, agent: true, session: "s"},
		{name: "codex session", env: env{"CODEX_SESSION_ID": "s"}, m: desk, owner: "codex:s", source: FromHarness, agent: true, session: "s"},
		{name: "codex thread", env: env{"CODEX_THREAD_ID": "t"}, m: desk, owner: "codex:t", source: FromHarness, agent: true, session: "t"},
		{
			name: "an agent inside a session that named itself", env: env{"TASKLOCK_OWNER": "claude:s", "CLAUDE_CODE_SESSION_ID": "s", "CODEX_THREAD_ID": "t"}, m: desk,
			owner: "claude:s/codex:t", source: FromHarness, agent: true, session: "s",
		},
		{name: "noted", env: env{"GEMINI_CLI": "1"}, m: noted(note("gemini", "g", 55)), owner: "gemini:g", source: FromHarness, agent: true, session: "g", pid: 55},
		{name: "noted, and no mark", m: noted(note("codex", "s", 55)), owner: "codex:s", source: FromHarness, agent: true, session: "s", pid: 55},
		{name: "the process of a session", env: env{"CODEX_SESSION_ID": "s"}, m: noted(note("codex", "s", 55)), owner: "codex:s", source: FromHarness, agent: true, session: "s", pid: 55},
		{name: "not noted", env: env{"CODEX_SESSION_ID": "s"}, m: noted(note("codex", "other", 55)), owner: "codex:s", source: FromHarness, agent: true, session: "s", pid: 99},
		{
			name: "noted by both", env: env{"GEMINI_CLI": "1", "CLAUDE_CODE_SESSION_ID": "c", "CLAUDE_PID": "44"}, m: noted(note("gemini", "g", 55), note("claude", "c", 44)),
			owner: "claude:c/gemini:g", source: FromHarness, agent: true, session: "c", pid: 99,
		},
		{
			name: "two sessions in one process", env: env{"GEMINI_CLI": "1"}, m: noted(note("gemini", "g", 55), note("gemini", "h", 55)),
			owner: "ann@box:pts-3@4711", source: FromTerminal, agent: true, warn: "--owner gemini:",
		},
		{name: "a hook of gemini", env: env{"GEMINI_CLI": "1", "GEMINI_SESSION_ID": "g"}, m: desk, owner: "gemini:g", source: FromHarness, agent: true, session: "g"},
		{name: "pi", env: env{"PI_SESSION_ID": "p"}, m: desk, owner: "pi:p", source: FromHarness, agent: true, session: "p"},
		{
			name: "one agent started by another", env: env{"CLAUDE_CODE_SESSION_ID": "s", "CODEX_THREAD_ID": "t"}, m: desk,
			owner: "claude:s/codex:t", source: FromHarness, agent: true, session: "s",
		},
		{name: "gemini", env: env{"GEMINI_CLI": "1"}, m: desk, owner: "ann@box:pts-3@4711", source: FromTerminal, agent: true, warn: "--owner gemini:"},
		{name: "gemini off", env: env{"GEMINI_CLI": "0"}, m: desk, owner: "ann@box:pts-3@4711", source: FromTerminal},
		{name: "cursor", env: env{"CURSOR_AGENT": "1"}, m: cron, owner: "box-42-rnd", source: FromProcess, agent: true, warn: "--owner cursor:"},
		{name: "opencode", env: env{"OPENCODE": "1", "OPENCODE_PID": "55"}, m: desk, owner: "ann@box:pts-3@4711", source: FromTerminal, agent: true, warn: "--owner opencode:"},
		{name: "opencode, cured", flag: "opencode:k", env: env{"OPENCODE": "1", "OPENCODE_PID": "55"}, m: desk, owner: "opencode:k", source: FromFlag, agent: true, pid: 55},
		{name: "any agent", env: env{"AI_AGENT": "new-thing"}, m: desk, owner: "ann@box:pts-3@4711", source: FromTerminal, agent: true, warn: "--owner agent:"},
		{name: "an agent in CI", env: env{"GEMINI_CLI": "1", "CI_JOB_ID": "9"}, m: desk, owner: "gitlab:9", source: FromCI, agent: true},
		{
			name: "github", env: env{"GITHUB_RUN_ID": "12", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_JOB": "build"}, m: cron,
			owner: "github:12-2-build", source: FromCI,
		},
		{
			name: "a leg of a github matrix", env: env{"GITHUB_RUN_ID": "12", "GITHUB_JOB": "build", "RUNNER_NAME": "GitHub Actions 3"}, m: cron,
			owner: "github:12-1-build@GitHub%20Actions%203", source: FromCI,
		},
		{name: "buildkite", env: env{"BUILDKITE_JOB_ID": "0191"}, m: cron, owner: "buildkite:0191", source: FromCI},
		{name: "pod uid", env: env{"POD_UID": "u", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, m: desk, owner: "pod:u", source: FromPod},
		{name: "pod", env: kube, m: desk, owner: "pod:box@b00t", source: FromPod},
		{name: "pod without boot id", env: kube, m: noBoot, owner: "box-42-rnd", source: FromProcess, warn: "TASKLOCK_OWNER"},
		{name: "an agent in a pod", env: env{"POD_UID": "u", "AI_AGENT": "1"}, m: desk, owner: "pod:u", source: FromPod, agent: true, warn: "--owner agent:"},
		{name: "slash in an id", env: env{"CODEX_THREAD_ID": "a/b%\n"}, m: desk, owner: "codex:a%2Fb%25", source: FromHarness, agent: true, session: "a/b%"},
		{name: "blank id", env: env{"CODEX_THREAD_ID": " "}, m: desk, owner: "ann@box:pts-3@4711", source: FromTerminal},
		{name: "not UTF-8", env: env{"CI_JOB_ID": "\xff"}, m: desk, owner: "gitlab:%FF", source: FromCI},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := identify(Input{Flag: c.flag, Config: c.config, Env: func(k string) string { return c.env[k] }}, c.m)
			if id.Owner != c.owner || id.Source != c.source {
				t.Errorf("owner %q from %s, want %q from %s", id.Owner, id.Source, c.owner, c.source)
			}
			if id.Agent != c.agent || id.PID != c.pid || id.Session != c.session {
				t.Errorf("agent %v pid %d session %q, want %v %d %q", id.Agent, id.PID, id.Session, c.agent, c.pid, c.session)
			}
			if !strings.Contains(id.Warning, c.warn) || (c.warn == "") != (id.Warning == "") || (c.warn == "") != (id.Remedy == "") {
				t.Errorf("warning %q, want %q", id.Warning, c.warn)
			}
			if id.Label != c.label {
				t.Errorf("label %q, want %q", id.Label, c.label)
			}
			if again := identify(Input{Flag: c.flag, Config: c.config, Env: func(k string) string { return c.env[k] }}, c.m); again.Warning != id.Warning {
				t.Errorf("the next warning is %q after %q", again.Warning, id.Warning)
			}
			if err := lease.CheckOwner(id.Owner); err != nil {
				t.Error(err)
			}
			checkChain(t, id)
		})
	}
}

// checkChain: all steps are there, and the one used is the first with a value.
func checkChain(t *testing.T, id Identity) {
	t.Helper()
	if len(id.Chain) != 8 {
		t.Errorf("%d steps", len(id.Chain))
	}
	first := true
	for _, s := range id.Chain {
		if used := first && s.Value != ""; s.Used != used {
			t.Errorf("step %+v: used should be %v", s, used)
		}
		first = first && s.Value == ""
	}
}

func TestHugeIDsStayOwners(t *testing.T) {
	long := strings.Repeat("x/", 5000)
	for _, v := range []string{"CODEX_THREAD_ID", "CI_JOB_ID", "GITHUB_RUN_ID", "POD_UID"} {
		env := func(k string) string {
			if k == v || strings.HasPrefix(v, "GITHUB") && (strings.HasPrefix(k, "GITHUB") || k == "RUNNER_NAME") {
				return long
			}
			return ""
		}
		id := identify(Input{Env: env}, desk)
		if err := lease.CheckOwner(id.Owner); err != nil || strings.Contains(id.Owner, "/") {
			t.Errorf("%s: %q: %v", v, id.Owner, err)
		}
	}
}

func TestSegmentKeepsIDsApart(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"a/b", "a%2Fb", "a%252Fb", "a b", "a%20b", "ä", "%C3%A4", "", strings.Repeat("y", 121), strings.Repeat("y", 122)} {
		s := segment(id)
		if other, ok := seen[s]; ok {
			t.Errorf("%q and %q are both %q", id, other, s)
		}
		seen[s] = id
	}
}

// The same process stays the same owner, whatever else it is.
func TestIdentifyThisProcess(t *testing.T) {
	none := func(string) string { return "" }
	a, b := Identify(Input{Env: none}), Identify(Input{Env: none})
	if a.Owner == "" || a.Owner != b.Owner {
		t.Errorf("%q, then %q", a.Owner, b.Owner)
	}
	if p := a.Chain[len(a.Chain)-1].Value; p != b.Chain[len(b.Chain)-1].Value || p == "" {
		t.Errorf("process %q", p)
	}
}

func TestLabel(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "none"))
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	if got := Label(dir); got != "" {
		t.Errorf("label %q, want none", got)
	}
	for _, args := range [][]string{{"init", "-q"}, {"config", "--global", "user.name", "Global"}, {"config", "user.name", "Ann Local"}, {"config", "user.email", "ann@example.com"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if got := Label(dir); got != "Ann Local <ann@example.com>" {
		t.Errorf("label %q", got)
	}
	for out, want := range map[string]string{"": "", "user.name\nA\x00": "A", "user.email\na@b\x00": "a@b", "user.name": ""} {
		if got := parseLabel(out); got != want {
			t.Errorf("parseLabel(%q) = %q, want %q", out, got, want)
		}
	}
}

func FuzzSegment(f *testing.F) {
	f.Add("a/b")
	f.Add("\xff%")
	f.Fuzz(func(t *testing.T, id string) {
		if id == "" {
			return
		}
		if s := segment(id); strings.Contains(s, "/") || lease.CheckOwner(s) != nil {
			t.Errorf("segment(%q) = %q", id, s)
		}
	})
}

// A server lives longer than a session: after the next one has begun, the server
// holds for that one, as its shell and its hooks do.
func TestServerFollowsTheSession(t *testing.T) {
	started := func(k string) string {
		return map[string]string{"CLAUDE_CODE_SESSION_ID": "one", "TASKLOCK_OWNER": "me"}[k]
	}
	for _, c := range []struct {
		notes []Note
		owner string
	}{
		{nil, "claude:one"},
		{[]Note{note("claude", "one", 7)}, "claude:one"},
		{[]Note{note("claude", "two", 7)}, "claude:two"},
		{[]Note{note("claude", "two", 7), note("claude", "three", 7)}, "claude:one"}, // neither is guessed
		{[]Note{note("gemini", "g", 7)}, "claude:one/gemini:g"},
	} {
		if got := identifyServer(Input{Env: started}, noted(c.notes...)); got.Owner != c.owner {
			t.Errorf("%v: owner %s, want %s", c.notes, got.Owner, c.owner)
		}
		if got := identifyServer(Input{Env: started, Flag: "zed"}, noted(c.notes...)); got.Owner != "zed" {
			t.Errorf("%v: owner %s in place of --owner", c.notes, got.Owner)
		}
	}
}

// Shell, server, hook and guard of an agent without a session know one name, the
// one that the warning proposes; of two sessions in one process none.
func TestProposedName(t *testing.T) {
	env := func(k string) string { return map[string]string{"GEMINI_CLI": "1"}[k] }
	m := cron
	m.harness = os.Getpid
	shell := identify(Input{Env: env}, m)
	if !strings.HasPrefix(shell.Proposed, "gemini:") || !strings.HasSuffix(shell.Warning, "--owner "+shell.Proposed) || shell.Remedy != "export TASKLOCK_OWNER="+shell.Proposed {
		t.Errorf("%+v", shell)
	}
	if server := identifyServer(Input{Env: env}, m); server.Owner != shell.Proposed {
		t.Errorf("the server is %s, the shell's proposal is %s", server.Owner, shell.Proposed)
	}
	hook := identify(Input{Env: func(k string) string { return map[string]string{"GEMINI_CLI": "1", "GEMINI_SESSION_ID": "g"}[k] }}, m)
	if hook.Owner != "gemini:g" || hook.Proposed != shell.Proposed || hook.Warning != "" {
		t.Errorf("%+v", hook)
	}
	m.above = func(func(string) string) []Note { return []Note{note("gemini", "h", 7), note("gemini", "g", 7)} }
	if two := identify(Input{Env: env}, m); two.Proposed != "" || !strings.HasSuffix(two.Warning, "--owner gemini:g or --owner gemini:h") {
		t.Errorf("%+v", two)
	}
	if person := identify(Input{Env: func(string) string { return "" }}, m); person.Proposed != "" {
		t.Errorf("a person gets the proposal %s", person.Proposed)
	}
}
