package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/gitstore"
)

// git compares commands on a local bare remote with one push, and with the
// script that users had before.
func (b *bench) git() {
	b.section("git, local bare remote: a pair (acquire and release)")
	dir := b.fresh("git")
	g := &gitBench{bench: b, dir: dir, remote: filepath.Join(dir, "remote.git")}
	g.run("", "git", "init", "--quiet", "--bare", g.remote)
	g.tasklock(0, "init")
	old := g.clone("old")
	empty := g.run(old, "git", "commit-tree", "-m", "start", g.run(old, "git", "mktree"))
	g.run(old, "git", "push", "--quiet", "origin", empty+":refs/heads/aitask-locks")
	raw := g.clone("raw")
	script, err := filepath.Abs("peers/gitlock")
	check(err)

	d, err := gitstore.Open(ctx, g.remote+"#library", &gitstore.Options{Create: true, Cache: filepath.Join(dir, "library")})
	check(err)
	st := store.New(d)
	pair(st, "me", "key")

	var push, theirs, ours, library []time.Duration
	for i := range 15 { // in turns, so that all see the same machine
		g.run(raw, "git", "commit", "--quiet", "--allow-empty", "-m", "x")
		push = append(push, took(func() { g.run(raw, "git", "push", "--quiet", "origin", "HEAD:refs/heads/x") }))
		theirs = append(theirs, took(func() { g.run(old, script, "lock", "1"); g.run(old, script, "unlock", "1") }))
		key := fmt.Sprint("k", i)
		ours = append(ours, took(func() { g.tasklock(0, "acquire", key, "--no-wait"); g.tasklock(0, "release", key) }))
		library = append(library, took(func() { pair(st, "me", "key") }))
	}
	one, before := percentile(push, 0.5), percentile(theirs, 0.5)
	ratio := func(d []time.Duration, base time.Duration) float64 {
		return float64(percentile(d, 0.5)) / float64(base)
	}
	b.note("one push", one.Round(time.Millisecond/10).String())
	b.note("a shell script in the way of aitasks", fmt.Sprintf("%s = %.1f pushes", before.Round(time.Millisecond/10), ratio(theirs, one)))
	b.row("tasklock acquire, tasklock release", fmt.Sprintf("%s = %.2f of it, %.1f pushes", percentile(ours, 0.5).Round(time.Millisecond/10), ratio(ours, before), ratio(ours, one)),
		"<= 0.65 of it", ratio(ours, before) <= 0.65)
	b.note("library", fmt.Sprintf("%s = %.2f of it", percentile(library, 0.5).Round(time.Millisecond/10), ratio(library, before)))

	g.crowd("script, 16 clones on 16 tasks", 16, func(i int) error {
		cmd := exec.Command(script, "lock", fmt.Sprint(i))
		cmd.Dir, cmd.Env = filepath.Join(dir, fmt.Sprint("clone", i)), gitEnv()
		return cmd.Run()
	}, one, func(i int) { g.clone(fmt.Sprint("clone", i)) }, false)
	g.crowd("tasklock, 32 clones on 32 tasks", 32, func(i int) error {
		return g.command(i, "acquire", fmt.Sprint("task-", i), "--no-wait").Run()
	}, one, func(i int) { g.tasklock(i, "list") }, true)
	g.crowd("tasklock, 16 clones on one task: refused", 16, func(i int) error {
		return g.command(i, "acquire", "one", "--no-wait", "--owner", fmt.Sprint("w", i)).Run()
	}, one, nil, false)

	queue, err := gitstore.Open(ctx, g.remote+"#queue", &gitstore.Options{Create: true, Cache: filepath.Join(dir, "queue")})
	check(err)
	b.joining("git", queue, 200, 0) // each join is a push
}

type gitBench struct {
	*bench
	dir, remote string
}

// crowd lets n start at once, and counts those that fail.
func (g *gitBench) crowd(what string, n int, do func(i int) error, push time.Duration, prepare func(i int), aim bool) {
	if prepare != nil {
		for i := range n {
			prepare(i)
		}
	}
	var failed atomic.Int64
	all := took(func() {
		atOnce(n, func(i int) {
			if do(i) != nil {
				failed.Add(1)
			}
		})
	})
	text := fmt.Sprintf("%d failed, %s = %.0f pushes", failed.Load(), all.Round(time.Millisecond), float64(all)/float64(push))
	if aim {
		g.row(what, text, "none fails", failed.Load() == 0)
		return
	}
	g.note(what, text)
}

func took(fn func()) time.Duration {
	start := time.Now()
	fn()
	return time.Since(start)
}

func (g *gitBench) clone(name string) string {
	dir := filepath.Join(g.dir, name)
	g.run("", "git", "clone", "--quiet", g.remote, dir)
	return dir
}

func (g *gitBench) run(dir, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, gitEnv()
	out, err := cmd.CombinedOutput()
	if err != nil {
		check(fmt.Errorf("%s %v: %w: %s", name, args, err, out))
	}
	return strings.TrimSpace(string(out))
}

// command is tasklock on the n-th machine: each has a cache of its own.
func (g *gitBench) command(n int, args ...string) *exec.Cmd {
	cmd := exec.Command(g.bin, append([]string{"--store", "git:" + g.remote, "--owner", "bench", "--quiet"}, args...)...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(g.dir, fmt.Sprint("cache", n)))
	return cmd
}

func (g *gitBench) tasklock(n int, args ...string) {
	if out, err := g.command(n, args...).CombinedOutput(); err != nil {
		check(fmt.Errorf("tasklock %v: %w: %s", args, err, out))
	}
}

func gitEnv() []string {
	return append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
}
