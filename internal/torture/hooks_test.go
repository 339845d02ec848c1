//go:build linux

package torture

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// desk is a repository in which sessions of Claude Code work side by side: each
// command has the environment of a session, each hook its JSON.
type desk struct {
	*testing.T
	dir, binary, bug string
}

func newDesk(t *testing.T, bug string) *desk {
	t.Helper()
	d := &desk{T: t, dir: tempDir(t), binary: command(t), bug: bug}
	if out, err := exec.Command("git", "init", "-q", d.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return d
}

// said is what a process of a session answered.
type said struct {
	code     int
	out, err string
}

// as runs tasklock as a session would, with stdin where it is a hook.
func (d *desk) as(session, stdin string, args ...string) said {
	return d.with([]string{"CLAUDE_CODE_SESSION_ID=" + session}, stdin, args...)
}

func (d *desk) with(env []string, stdin string, args ...string) said {
	cmd := exec.Command(d.binary, args...)
	cmd.Dir, cmd.Stdin = d.dir, strings.NewReader(stdin)
	cmd.Env = append(env, "CLAUDECODE=1", "HOME="+d.dir, "PATH="+os.Getenv("PATH"), "TASKLOCK_FAULT_BUG="+d.bug, "TASKLOCK_FAULT_JITTER=1", "GOMAXPROCS=1")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return said{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// hook tells tasklock about an event of a session.
func (d *desk) hook(session, event, more string) said {
	text := fmt.Sprintf(`{"session_id":%q,"transcript_path":"/t/%s.jsonl","cwd":%q,"permission_mode":"default","hook_event_name":%q%s}`,
		session, session, d.dir, event, more)
	return d.as(session, text, "hook", "claude", event)
}

// both runs something for two sessions at once.
func both(fn func(i int) said) (out [2]said) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range out {
		wg.Go(func() {
			<-start
			out[i] = fn(i)
		})
	}
	close(start)
	wg.Wait()
	return out
}

// TestSessionsRace: two sessions want one task, then overlapping files. In
// every round one of them wins both times; the other one's edit is denied with
// the winner's name and the next command, and is not once the winner has left.
func TestSessionsRace(t *testing.T) {
	d := newDesk(t, "")
	began, all := time.Now(), 0
	for n := range long.Loop(t, 40, 40*time.Second) {
		if !d.race(n) {
			t.Fatalf("round %d", n)
		}
		all = n + 1
	}
	t.Logf("%d rounds in %s", all, time.Since(began).Round(time.Millisecond))
}

func (d *desk) race(n int) bool {
	sessions := [2]string{fmt.Sprintf("a%d", n), fmt.Sprintf("b%d", n)}
	if r := d.as("x", "", "tasks", "add", fmt.Sprintf("task %d", n), "--id", fmt.Sprintf("r%d", n)); r.code != 0 {
		d.Errorf("%+v", r)
		return false
	}
	id := fmt.Sprintf("r%d", n)
	for _, s := range sessions {
		if r := d.hook(s, "SessionStart", `,"source":"startup"`); r.code != 0 || !strings.Contains(r.out, "claude:"+s) {
			d.Errorf("start: %+v", r)
		}
	}
	claims := both(func(i int) said { return d.as(sessions[i], "", "tasks", "claim", id, "--no-wait") })
	winner, ok := d.winner("task", claims)
	if !ok {
		return false
	}
	loser := sessions[1-winner]
	if held := claims[1-winner].err; !strings.Contains(held, "locked by claude:"+sessions[winner]) || !strings.Contains(held, "Next: tasklock tasks claim") {
		d.Errorf("the loser gets %q", held)
	}
	paths := [2]string{fmt.Sprintf("path:src/%d", n), fmt.Sprintf("path:src/%d/a.go", n)}
	locks := both(func(i int) said { return d.as(sessions[i], "", "acquire", paths[i], "--no-wait") })
	first, ok := d.winner("path", locks)
	if !ok {
		return false
	}
	edit := fmt.Sprintf(`,"tool_name":"Edit","tool_input":{"file_path":%q,"old_string":"a","new_string":"b"}`, filepath.Join(d.dir, "src", fmt.Sprint(n), "a.go"))
	if r := d.hook(sessions[first], "PreToolUse", edit); r.code != 0 {
		d.Errorf("the winner's edit: %+v", r)
	}
	denied := d.hook(sessions[1-first], "PreToolUse", edit)
	if denied.code != 2 || !strings.Contains(denied.err, "locked by claude:"+sessions[first]) || !strings.Contains(denied.err, "Next: tasklock acquire path:src/") {
		d.Errorf("the other's edit: %+v", denied)
	}
	if r := d.as(sessions[winner], "", "tasks", "complete", id); r.code != 0 {
		d.Errorf("complete: %+v", r)
	}
	if r := d.as(loser, "", "tasks", "claim", id, "--no-wait"); r.code != 11 {
		d.Errorf("a task was given out twice: %+v", r)
	}
	if r := d.hook(sessions[first], "SessionEnd", `,"reason":"other"`); r.code != 0 {
		d.Errorf("end: %+v", r)
	}
	for slow := time.Now().Add(time.Minute); ; { // an end that takes long is left to another process
		r := d.hook(sessions[1-first], "PreToolUse", edit)
		if r.code == 0 {
			break
		}
		if time.Now().After(slow) {
			d.Errorf("the other's edit afterwards: %+v", r)
			break
		}
	}
	return !d.Failed()
}

// winner is the one of two that got it; the other one must be told that it is
// locked.
func (d *desk) winner(what string, got [2]said) (int, bool) {
	for i := range got {
		if got[i].code == 0 && got[1-i].code == 6 {
			return i, true
		}
	}
	d.Errorf("%s: not one winner: %+v", what, got)
	return 0, false
}

// TestSessionsRaceCanFail: without the guard on all path locks, two sessions
// get overlapping files.
func TestSessionsRaceCanFail(t *testing.T) {
	d := newDesk(t, "path_unguarded")
	for n := range 400 {
		got := both(func(i int) said {
			return d.as(fmt.Sprintf("s%d-%d", n, i), "", "acquire", []string{fmt.Sprintf("path:src/%d", n), fmt.Sprintf("path:src/%d/a.go", n)}[i], "--no-wait")
		})
		if got[0].code == 0 && got[1].code == 0 {
			t.Logf("caught in round %d", n)
			return
		}
	}
	t.Error("the bug was not seen")
}

// harness is a process that stands for a coding agent.
func (d *desk) harness() *exec.Cmd {
	d.Helper()
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func inside(session string, harness *exec.Cmd) []string {
	return []string{"CLAUDE_CODE_SESSION_ID=" + session, fmt.Sprintf("CLAUDE_PID=%d", harness.Process.Pid)}
}

// TestKilledHarness: what a session holds is free when its harness is killed,
// for who asks and for who waits.
func TestKilledHarness(t *testing.T) {
	d := newDesk(t, "")
	for _, wait := range []string{"--wait=60s", "--no-wait"} {
		victim := d.harness()
		if r := d.with(inside("a", victim), "", "acquire", "deploy", "path:src", "--ttl", "1h"); r.code != 0 {
			t.Fatalf("%+v", r)
		}
		if r := d.as("b", "", "acquire", "path:src/x", "--no-wait"); r.code != 6 {
			t.Fatalf("%+v", r)
		}
		done := make(chan said, 1)
		killed := make(chan time.Time, 1)
		go func() {
			if wait == "--no-wait" {
				<-killed
			}
			for {
				if r := d.as("b", "", "acquire", "deploy", "path:src/x", wait); r.code != 6 {
					done <- r
					return
				}
			}
		}()
		if wait != "--no-wait" {
			for d.as("c", "", "show", "deploy", "--json").out == "" || !strings.Contains(d.as("c", "", "show", "deploy").out, "claude:b") {
				time.Sleep(20 * time.Millisecond)
			}
		}
		at := time.Now()
		_ = victim.Process.Kill()
		_ = victim.Wait()
		killed <- at
		if r := <-done; r.code != 0 {
			t.Fatalf("%+v", r)
		}
		took := time.Since(at)
		t.Logf("%s: free after %s", wait, took.Round(time.Millisecond))
		if took > time.Minute {
			t.Errorf("%s: free only after %s", wait, took)
		}
		if r := d.as("b", "", "release", "--all"); r.code != 0 {
			t.Fatalf("%+v", r)
		}
	}
}

// TestSilentHarness: a session that says nothing for several times its ttl keeps
// what it holds while its harness lives, and not a moment longer.
func TestSilentHarness(t *testing.T) {
	t.Parallel() // it mostly sleeps
	d := newDesk(t, "")
	ttl, times := 6*time.Second, 2
	if full() {
		times = 5
	}
	h := d.harness()
	got := d.with(inside("a", h), "", "acquire", "deploy", "--ttl", ttl.String(), "--keep-alive", "auto")
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	began := d.as("b", "", "check", "deploy").out
	token := strings.Split(strings.Split(began, "token ")[1], ",")[0]
	for end := time.Now().Add(time.Duration(times) * ttl); time.Now().Before(end); time.Sleep(ttl / 4) {
		if r := d.as("b", "", "check", "deploy", "--token", token); r.code != 0 {
			t.Fatalf("lost while its harness lives: %+v", r)
		}
		if r := d.as("b", "", "acquire", "deploy", "--no-wait"); r.code != 6 {
			t.Fatalf("given away while its harness lives: %+v", r)
		}
	}
	_ = h.Process.Kill()
	_ = h.Wait()
	if r := d.as("b", "", "acquire", "deploy", "--wait", "60s"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
}
