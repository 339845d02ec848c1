package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// hooks measures what a coding agent waits for: ten sessions in one repository,
// a thousand events each, every event a process of its own. Every session holds
// a path and tries to edit its own files and, now and then, another's.
func (b *bench) hooks() {
	b.section("Hooks: 10 sessions × 1,000 events on SQLite, start-up included")
	const sessions, events = 10, 1000
	dir := b.fresh("hooks")
	check(exec.Command("git", "init", "-q", dir).Run())
	times := make([][]time.Duration, sessions)
	var wg sync.WaitGroup
	for s := range sessions {
		b.hookOf(dir, s, "acquire", fmt.Sprintf("path:src/%d", s), "--ttl", "5s")
	}
	start := time.Now()
	for s := range sessions {
		wg.Go(func() {
			for n := range events {
				began := time.Now()
				b.event(dir, s, n)
				times[s] = append(times[s], time.Since(began))
			}
		})
	}
	wg.Wait()
	var all []time.Duration
	for _, t := range times {
		all = append(all, t...)
	}
	b.note("events a second", fmt.Sprintf("%.0f", float64(len(all))/time.Since(start).Seconds()))
	p50, p99 := percentile(all, 0.5), percentile(all, 0.99)
	b.row("an event", fmt.Sprintf("p50 %s, p99 %s", p50.Round(time.Microsecond), p99.Round(time.Microsecond)), "p99 < 100ms", p99 < 100*time.Millisecond)
	b.largeEvents(dir)
}

// largeEvents measures the event of a tool that writes a file of a megabyte, by
// turns with one of a kilobyte.
func (b *bench) largeEvents(dir string) {
	const line = "a \\\"quoted\\\" line of a file\\n"
	var small, large []time.Duration
	timed := func(size int) time.Duration {
		began := time.Now()
		b.write(dir, strings.Repeat(line, size/len(line)))
		return time.Since(began)
	}
	for range 200 {
		small, large = append(small, timed(1<<10)), append(large, timed(1<<20))
	}
	p50, p95 := percentile(large, 0.5), percentile(large, 0.95)
	b.note("a file of 1 MB, beside one of 1 KB", fmt.Sprintf("%.1f times as long", float64(p50)/float64(percentile(small, 0.5))))
	b.row("an event with a file of 1 MB", fmt.Sprintf("p50 %s, p95 %s", p50.Round(time.Microsecond), p95.Round(time.Microsecond)), "p95 < 50ms", p95 < 50*time.Millisecond)
}

// write is the event of a session that writes a file of its own. The text is
// escaped already.
func (b *bench) write(dir, text string) {
	b.send(dir, 0, "PreToolUse", fmt.Sprintf(`,"tool_name":"Write","tool_input":{"file_path":%q,"content":"%s"}`, filepath.Join(dir, "src", "0", "a.go"), text), 0)
}

// event is the n-th event of a session.
func (b *bench) event(dir string, s, n int) {
	name, more, want := "PostToolUse", "", 0
	file := func(of int) string { return filepath.Join(dir, "src", fmt.Sprint(of), "a.go") }
	switch n % 4 {
	case 0:
		name, more = "PreToolUse", fmt.Sprintf(`,"tool_name":"Edit","tool_input":{"file_path":%q,"new_string":%q}`, file(s), strings.Repeat("x", 2000))
	case 1:
		name, more, want = "PreToolUse", fmt.Sprintf(`,"tool_name":"Bash","tool_input":{"command":"cd src && sed -i s/a/b/ %s"}`, file((s+1)%10)), 2
	case 2:
		if n%100 == 2 {
			name, more = "SessionStart", `,"source":"compact"`
		}
	}
	b.send(dir, s, name, more, want)
}

// send gives a hook its event.
func (b *bench) send(dir string, s int, name, more string, want int) {
	json := fmt.Sprintf(`{"session_id":"s%d","cwd":%q,"hook_event_name":%q%s}`, s, dir, name, more)
	cmd := exec.Command(b.bin, "hook", "claude", name)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, hookEnv(dir, s), strings.NewReader(json)
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != want {
		check(fmt.Errorf("%.200s: exit %d, not %d: %s", json, got, want, bytes.TrimSpace(out)))
	}
}

func (b *bench) hookOf(dir string, s int, args ...string) {
	cmd := exec.Command(b.bin, args...)
	cmd.Dir, cmd.Env = dir, hookEnv(dir, s)
	if out, err := cmd.CombinedOutput(); err != nil {
		check(fmt.Errorf("%w: %s", err, out))
	}
}

func hookEnv(dir string, s int) []string {
	return []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "CLAUDECODE=1", fmt.Sprintf("CLAUDE_CODE_SESSION_ID=s%d", s)}
}
