//go:build unix

package cli_test

import (
	"strings"
	"testing"
)

// TestTerminalWaitsForTask: what a person sees who wants a task that someone
// else works on.
func TestTerminalWaitsForTask(t *testing.T) {
	s := newSession(t)
	s.pipe("tasks", "add", "Fix bug", "--section", "Backend")
	s.pipe("tasks", "claim", "Fix bug")
	bob := s.terminal("tasks", "update", "Fix bug", "--status", "in_progress", "--owner", "bob", "--wait", "1m")
	bob.see(`Task "Fix bug" is locked by alice\.\nWaiting for lock\.\.\. \(Ctrl\+C to cancel\)\n`)
	bob.see(`\r\[=*> +\] \d+s elapsed of 1m, place 1, held by alice, expires in \S+\x1b\[K`)
	s.pipe("tasks", "complete", "Fix bug", "--dry-run")
	s.pipe("tasks", "unclaim", "Fix bug")
	bob.see(`\r\x1b\[KLock released!\nTask "Fix bug" status updated to in_progress\.\nToken \d+, expires in 1h00m`)
	if code := bob.end(); code != 0 {
		t.Errorf("exit %d", code)
	}

	carol := s.terminal("tasks", "claim", "t1", "--owner", "carol")
	carol.see(`place 1, held by bob`)
	carol.typed("\x03")
	if code := carol.end(); code != 130 {
		t.Errorf("exit %d: %q", code, carol.text())
	}
}

func TestTerminalShowsTasks(t *testing.T) {
	s := newSession(t, "NO_COLOR=1")
	s.pipe("tasks", "add", "Fix bug", "--section", "Backend", "--label", "api", "--priority", "high")
	s.pipe("tasks", "add", "Write tests", "--depends-on", "t1")
	s.pipe("tasks", "claim", "t1")
	for _, c := range []struct{ args, want string }{
		{"tasks list", `ID +STATUS +PRIORITY +SECTION +LOCKED BY +EXPIRES +TITLE\n` +
			`t2 +pending +medium +Write tests \(waits for t1\)\n` +
			`t1 +in_progress +high +Backend +alice +in 1h00m +Fix bug #api\n$`},
		{"tasks list --status failed", `^No tasks\.\n$`},
		{"tasks stalled", `^No tasks\.\n$`},
		{"tasks stats", `SECTION +TOTAL +pending .*\n- +1 .*\nBackend +1 .*\n\* +2 .*\n0 ready, 0 stalled, 0% done\.\n$`},
		{"sections list", `SECTION +PRIORITY +KIND +OPEN +TASKS +LOCKED BY +STATE +DEPENDS ON\nBackend +medium +exclusive +1 +1 +alice +open\n$`},
		{"tasks history t1", `task claim +t1 +alice`},
	} {
		sc := s.terminal(strings.Fields(c.args)...)
		sc.end()
		sc.see(c.want)
	}
	s.pipe("tasks", "complete", "t1")
	sc := s.terminal("next", "--claim")
	sc.end()
	sc.see(`^Claimed t2 "Write tests" \(token \d+\), expires in 1h00m`)
}
