package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// set makes the folders: an empty home, and a repository that is set up as the
// documents say.
func (st *stage) set(programs string) error {
	base, err := cache()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(base, "runs"), 0o700); err != nil {
		return err
	}
	root, err := os.MkdirTemp(filepath.Join(base, "runs"), st.name+"-") // Codex wants no home in /tmp
	if err != nil {
		return err
	}
	st.place = place{root: root, home: filepath.Join(root, "home"), repo: filepath.Join(root, "repo"), bin: filepath.Join(root, "bin"), programs: programs, model: st.model.url}
	for _, dir := range []string{st.home, st.repo, st.bin, filepath.Join(root, "events"), filepath.Join(st.home, "tmp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(st.bin, "tasklock"), []byte(st.wrapper()), 0o700); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(st.home, ".profile"), "PATH='"+st.path()+"'\n"); err != nil { // Codex runs login shells
		return err
	}
	if st.prepare != nil {
		if err := st.prepare(st.place); err != nil {
			return err
		}
	}
	for _, line := range []string{
		"git init -q -b main .", "git config user.name person", "git config user.email person@example.com",
		"mkdir -p src/web src/api && echo text >src/web/page.txt", "tasklock init", "tasklock agents install " + st.name, "tasklock guard install",
		"git add -A", "git commit -q -m first",
	} {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = st.repo, append(st.environ(), "TASKLOCK_OWNER=person")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", line, err, out)
		}
	}
	return nil
}

// wrapper is a tasklock that keeps the events that hooks are given.
func (st *stage) wrapper() string {
	return fmt.Sprintf(`#!/bin/sh
if [ "$1" = hook ]; then
	event=%s/$(date +%%s%%N)-$$.$3.json
	cat >"$event"
	exec %s "$@" <"$event"
fi
exec %s "$@"
`, filepath.Join(st.root, "events"), st.options.tasklock, st.options.tasklock)
}

// environ is what everything here is started with, and nothing that this process
// has inherited: it may run in a session itself.
func (st *stage) environ() []string {
	return append([]string{
		"PATH=" + st.path(),
		"HOME=" + st.home, "TMPDIR=" + filepath.Join(st.home, "tmp"), "LANG=C.UTF-8", "TERM=dumb", "SHELL=/bin/bash", "USER=person",
		"HTTP_PROXY=" + st.place.model, "HTTPS_PROXY=" + st.place.model, "http_proxy=" + st.place.model, "https_proxy=" + st.place.model,
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost",
	}, st.env(st.place)...)
}

func (st *stage) path() string {
	return strings.Join([]string{st.bin, st.programs, os.Getenv("PATH")}, string(os.PathListSeparator))
}

// launch starts a session without a terminal.
func (st *stage) launch(who string) error {
	out := filepath.Join(st.root, who+".out")
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	cmd := exec.Command(filepath.Join(st.programs, st.program), st.args(mark(who))...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = st.repo, append(st.environ(), st.profile...), f, f
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	s := &session{cmd: cmd, out: out, done: make(chan struct{})}
	go func() { _ = cmd.Wait(); close(s.done) }()
	st.running[who], st.top = s, append(st.top, who)
	return nil
}

// ended waits until a session that has said its last word is gone. It says the word
// again to a harness that has something to add: that a subagent has ended, say.
func (st *stage) ended(ctx context.Context, who string) error {
	s := st.running[who]
	if s == nil {
		return nil // a subagent, or a session in another one
	}
	talk := st.model.talk(who)
	for {
		select {
		case <-s.done:
			delete(st.running, who)
			return nil
		case <-talk.asked:
			if err := talk.say(ctx, answer{}); err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("the session has not ended: %w", context.Cause(ctx))
		}
	}
}

// kill ends a session at once, with everything in its group.
func (st *stage) kill(ctx context.Context, who string) error {
	s := st.running[who]
	if s == nil {
		return fmt.Errorf("no session %s runs", who)
	}
	killGroup(s.cmd)
	return st.ended(ctx, who)
}

// stop ends what is left.
func (st *stage) stop() {
	for _, s := range st.running {
		killGroup(s.cmd)
		<-s.done
	}
	st.running = nil
}
