//go:build linux

package torture

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestGitLogin: a user without access gets that answer from every command,
// gets nothing, and changes nothing. What others hold stays held.
func TestGitLogin(t *testing.T) {
	t.Run(gitHTTP.name, func(t *testing.T) {
		turnedAway(t, gitHTTP, func(string) map[string][]string {
			return map[string][]string{
				"no password":    helper(""),
				"wrong password": helper("!f() { echo username=me; echo password=wr0ngpass; }; f"),
			}
		})
	})
	if !full() {
		return
	}
	t.Run(gitSSH.name, func(t *testing.T) {
		turnedAway(t, gitSSH, func(dir string) map[string][]string {
			with := func(config string) []string { return []string{"GIT_SSH_COMMAND=ssh -F " + filepath.Join(dir, config)} }
			return map[string][]string{"another key": with("ssh_stranger"), "another host": with("ssh_others")}
		})
	})
}

// turnedAway tries each of the logins, on a machine that has seen the store and
// on one that has not.
func turnedAway(t *testing.T, b backend, logins func(dir string) map[string][]string) {
	p := b.place(t)
	tasklock := func(machine int, login []string, args ...string) (int, string) {
		cmd := exec.Command(command(t), append([]string{"--store", p.url, "--owner", "me"}, args...)...)
		cmd.Env = append(p.env(machine), login...) // the last of a name counts
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if code, out := tasklock(0, nil, "acquire", "held"); code != 0 {
		t.Fatalf("with its login: exit %d, %s", code, out)
	}
	tip := func() string { return git(t, filepath.Join(p.dir, "remote.git"), "rev-parse", "tasklock") }
	before := tip()
	for name, login := range logins(p.dir) {
		for machine, calls := range []string{"acquire free --no-wait|check held|release held|list", "acquire free --no-wait|check held"} {
			for call := range strings.SplitSeq(calls, "|") {
				code, out := tasklock(machine, login, strings.Fields(call)...)
				if code != 5 || !strings.Contains(out, "store refuses access") || strings.Contains(out, "wr0ngpass") {
					t.Errorf("%s, machine %d: %s: exit %d, %s", name, machine, call, code, out)
				} else if machine == 0 && strings.HasPrefix(call, "acquire") {
					t.Logf("%s: %s", name, out)
				}
			}
		}
	}
	if now := tip(); now != before {
		t.Errorf("the branch went from %s to %s", before, now)
	}
	if code, out := tasklock(1, nil, "check", "held"); code != 0 {
		t.Errorf("check of what is held, with the login: exit %d, %s", code, out)
	}
}
