package main

// What is checked for each harness.
const (
	sessions  = "two sessions"
	nested    = "nested session"
	subagents = "two subagents"
	edits     = "edits and shell writes"
	commits   = "commits"
	oneOwner  = "MCP and shell are one"
	ends      = "end frees"
	kills     = "SIGKILL frees"
)

var checks = []string{sessions, nested, subagents, edits, commits, oneOwner, ends, kills}

// A script is a list of steps in a fresh repository and home.
type script struct {
	name  string
	env   []string // of its sessions, as from a profile
	steps []step
}

// A step is one thing that somebody does, and what must come back. Where nothing is
// wanted nothing is waited for: the call is still under way when the next step
// begins.
type step struct {
	who   string // a session, a subagent, or the person at the keyboard
	do    action
	what  string   // the command, file, key, or those who are started
	want  []string // every one of these; a write without a refusal must make its file
	not   []string // none of these
	check string   // which check it belongs to; empty: it prepares the others
}

type action int

const (
	start  action = iota // the harness, as a session of its own
	shell                // the model calls the shell
	write                // the model calls the tool that writes a file
	take                 // the model acquires a key through MCP
	nest                 // the model starts another session from its shell
	spawn                // the model starts subagents
	await                // what came back from a call of an earlier step
	finish               // the model says its last word, and the session or subagent ends
	kill                 // the harness is killed with its group
	person               // somebody at the keyboard, with no harness
)

// refused is in every refusal.
const refused = "locked by"

var scripts = []script{
	{name: "sessions", env: []string{"TASKLOCK_OWNER=me"}, steps: []step{
		{who: "a", do: start},
		{who: "a", do: shell, what: "tasklock acquire path:src/web", want: []string{"Acquired path:src/web"}, check: sessions},
		{who: "b", do: start}, // now: in an empty home, OpenCode cannot make its database twice at once
		{who: "b", do: shell, what: "tasklock acquire path:src/web --no-wait; echo answer=$?", want: []string{refused, "answer=6"}, not: []string{"Acquired"}, check: sessions},
		{who: "a", do: shell, what: "tasklock acquire path:src/web", want: []string{"path:src/web"}, not: []string{refused}, check: sessions},
		{who: "b", do: shell, what: "tasklock release path:src/web; echo answer=$?", not: []string{"answer=0"}, want: []string{"answer="}, check: sessions},

		{who: "a", do: write, what: "src/web/own.txt", check: edits, not: []string{refused}},
		{who: "person", do: person, what: "cat src/web/own.txt", want: []string{"written"}, check: edits},
		{who: "b", do: write, what: "src/web/foreign.txt", want: []string{refused}, check: edits},
		{who: "b", do: shell, what: "echo x >src/web/foreign.txt", want: []string{refused}, check: edits},
		{who: "b", do: shell, what: "cd src && rm web/own.txt", want: []string{refused}, check: edits},
		{who: "a", do: shell, what: "echo more >>src/web/own.txt; echo answer=$?", want: []string{"answer=0"}, not: []string{refused}, check: edits},
		{who: "b", do: write, what: "src/other/free.txt", not: []string{refused}, check: edits},
		{who: "person", do: person, what: "ls src/web src/other", want: []string{"own.txt", "free.txt"}, not: []string{"foreign"}, check: edits},

		{who: "person", do: person, what: "git add src/web"},
		{who: "b", do: shell, what: "git commit -q -m foreign; echo answer=$?", want: []string{refused}, not: []string{"answer=0"}, check: commits},
		{who: "a", do: shell, what: "git commit -q -m own; echo answer=$?", want: []string{"answer=0"}, not: []string{refused}, check: commits},
		{who: "person", do: person, what: "git log --format=%s", want: []string{"own"}, not: []string{"foreign"}, check: commits},

		{who: "a", do: take, what: "path:src/mcp", want: []string{"acquired"}, not: []string{`"held"`}, check: oneOwner},
		{who: "b", do: take, what: "path:src/mcp", want: []string{`held`}, not: []string{`"acquired"`}, check: oneOwner},
		{who: "a", do: shell, what: "tasklock release path:src/mcp; echo answer=$?", want: []string{"answer=0"}, check: oneOwner},
		{who: "b", do: take, what: "path:src/mcp", want: []string{"acquired"}, check: oneOwner},
		{who: "b", do: write, what: "src/mcp/own.txt", not: []string{refused}, check: oneOwner},

		{who: "b", do: shell, what: "tasklock acquire path:src/killed", want: []string{"Acquired"}, check: kills},
		{who: "person", do: person, what: "tasklock acquire path:src/web --no-wait; echo answer=$?", want: []string{"answer=6"}, check: ends},
		{who: "a", do: finish, check: ends},
		{who: "person", do: person, what: "tasklock acquire path:src/web --wait 60s", want: []string{"Acquired"}, check: ends},
		{who: "person", do: person, what: "tasklock acquire path:src/killed --no-wait; echo answer=$?", want: []string{"answer=6"}, check: kills},
		{who: "b", do: kill, check: kills},
		{who: "person", do: person, what: "tasklock acquire path:src/killed --wait 60s", want: []string{"Acquired"}, check: kills},
	}},
	{name: "nested", steps: []step{
		{who: "a", do: start, check: nested},
		{who: "a", do: shell, what: "tasklock acquire path:src/web", want: []string{"Acquired path:src/web"}, check: nested},
		{who: "a", do: nest, what: "b", check: nested},
		{who: "b", do: shell, what: "tasklock acquire path:src/web --no-wait; echo answer=$?", want: []string{refused, "answer=6"}, not: []string{"Acquired"}, check: nested},
		{who: "b", do: write, what: "src/web/foreign.txt", want: []string{refused}, check: nested},
		{who: "b", do: shell, what: "tasklock acquire path:src/api", want: []string{"Acquired path:src/api"}, check: nested},
		{who: "b", do: write, what: "src/api/own.txt", not: []string{refused}, check: nested},
		{who: "b", do: finish, check: nested},
		{who: "a", do: await, want: []string{lastWord}, check: nested},
		{who: "a", do: shell, what: "tasklock acquire path:src/api --wait 60s", want: []string{"Acquired path:src/api"}, check: nested},
		{who: "person", do: person, what: "tasklock acquire path:src/web --no-wait; echo answer=$?", want: []string{"answer=6"}, check: nested},
		{who: "a", do: finish, check: nested},
	}},
	{name: "subagents", steps: []step{
		{who: "a", do: start, check: subagents},
		{who: "a", do: shell, what: "tasklock acquire path:src/common", want: []string{"Acquired"}, check: subagents},
		{who: "a", do: spawn, what: "b c", check: subagents},
		{who: "b", do: shell, what: "tasklock acquire path:src/web", want: []string{"Acquired path:src/web"}, check: subagents},
		{who: "c", do: shell, what: "tasklock acquire path:src/web --no-wait; echo answer=$?", want: []string{refused, "answer=6"}, not: []string{"Acquired"}, check: subagents},
		{who: "c", do: write, what: "src/web/foreign.txt", want: []string{refused}, check: subagents},
		{who: "c", do: shell, what: "echo x >src/web/foreign.txt", want: []string{refused}, check: subagents},
		{who: "b", do: write, what: "src/web/own.txt", not: []string{refused}, check: subagents},
		{who: "c", do: write, what: "src/common/shared.txt", not: []string{refused}, check: subagents},
		{who: "person", do: person, what: "git add src/web"},
		{who: "c", do: shell, what: "git commit -q -m foreign; echo answer=$?", want: []string{refused}, not: []string{"answer=0"}, check: subagents},
		{who: "b", do: shell, what: "git commit -q -m own; echo answer=$?", want: []string{"answer=0"}, not: []string{refused}, check: subagents},
		{who: "b", do: take, what: "path:src/mcp", want: []string{"acquired"}, check: subagents},
		{who: "b", do: write, what: "src/mcp/own.txt", not: []string{refused}, check: subagents},
		{who: "c", do: take, what: "path:src/mcp", want: []string{"held"}, check: subagents},
		{who: "b", do: finish, check: subagents},
		{who: "c", do: shell, what: "tasklock acquire path:src/web --wait 60s", want: []string{"Acquired path:src/web"}, check: subagents},
		{who: "c", do: finish, check: subagents},
		{who: "a", do: await, check: subagents},
		{who: "a", do: finish, check: subagents},
	}},
}
