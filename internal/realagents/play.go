package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// stepTime is how long one step may take: harnesses start slowly on a busy machine.
const stepTime = 3 * time.Minute

// A stage is one script being played.
type stage struct {
	place
	harness
	profile []string // what the person exports for all sessions
	model   *model
	options options
	running map[string]*session
	pending map[string]turn // what a harness shows the model and has no answer to yet
	top     []string        // those who are sessions of their own
}

// A session is a process of the harness, in a group of its own.
type session struct {
	cmd  *exec.Cmd
	out  string        // the file of what it prints
	done chan struct{} // closed when it has ended
}

// play plays a script and notes in the report what became of its checks.
func play(ctx context.Context, m *model, h harness, programs string, s script, o options, r *report) {
	if !slices.ContainsFunc(s.steps, func(s step) bool { return s.check != "" && h.can(s) }) {
		return
	}
	fmt.Printf("   %s\n", s.name)
	m.forget()
	st := &stage{harness: h, profile: s.env, model: m, options: o, running: map[string]*session{}, pending: map[string]turn{}}
	defer st.stop()
	if err := st.set(programs); err != nil {
		r.failScript(s, "cannot be set up: "+err.Error())
		return
	}
	failed := false
	for i, step := range s.steps {
		if !h.can(step) {
			continue
		}
		seen, err := st.step(ctx, step)
		if o.verbose {
			fmt.Printf("   %s: %s\n%s", step, verdictOf(err), indent(seen))
		}
		if err == nil {
			r.pass(step)
			continue
		}
		failed = true
		r.fail(step, fmt.Sprintf("%s: %v", step, err), seen)
		if errors.As(err, new(*notAsWanted)) {
			continue
		}
		r.failScript(script{steps: s.steps[i:]}, "not reached: "+step.String()+": "+err.Error()) // the rest counts on it
		break
	}
	r.note(m)
	if o.record != "" {
		if err := record(st, o.record); err != nil {
			r.problems = append(r.problems, err.Error())
		}
	}
	st.stop()
	if failed || o.keep {
		fmt.Printf("   kept: %s\n", st.root)
		return
	}
	_ = os.RemoveAll(st.root)
}

func verdictOf(err error) string {
	if err == nil {
		return "ok"
	}
	return "FAILED: " + err.Error()
}

// can reports whether a harness has what a step needs.
func (h harness) can(s step) bool {
	return !slices.Contains(h.untried, s.check) && (h.mcp != nil || s.check != oneOwner && s.do != take) && (h.spawn != nil || s.check != subagents)
}

// notAsWanted is an answer that came and is not the one that is wanted.
type notAsWanted struct{ text string }

func (e *notAsWanted) Error() string { return e.text }

// step does what a step says and checks what came back.
func (st *stage) step(ctx context.Context, s step) (seen string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTime, fmt.Errorf("nothing came within %s", stepTime))
	defer cancel()
	switch s.do {
	case start:
		return "", st.launch(s.who)
	case person:
		return st.person(ctx, s)
	case kill:
		return "", st.kill(ctx, s.who)
	case await:
		shown, err := st.shown(ctx, s.who)
		return s.judge(shown.results, err)
	}
	shown, err := st.shown(ctx, s.who)
	if err != nil {
		return "", err
	}
	delete(st.pending, s.who)
	if err := st.model.talk(s.who).say(ctx, st.answer(s, shown)); err != nil {
		return "", err
	}
	if s.do == finish {
		return "", st.ended(ctx, s.who)
	}
	if len(s.want)+len(s.not) == 0 {
		return "", nil
	}
	shown, err = st.shown(ctx, s.who)
	if seen, err = s.judge(shown.results, err); err != nil || s.do != write {
		return seen, err
	}
	_, err = os.Stat(filepath.Join(st.repo, s.what))
	if there, allowed := err == nil, !slices.Contains(s.want, refused); there != allowed {
		return seen, &notAsWanted{fmt.Sprintf("the file is there: %v, is to be there: %v", there, allowed)}
	}
	return seen, nil
}

// answer is what the model says in a step.
func (st *stage) answer(s step, t turn) (a answer) {
	switch s.do {
	case shell:
		a.calls = []toolCall{st.shell(t, s.what)}
	case write:
		a.calls = []toolCall{st.write(t, filepath.Join(st.repo, s.what))}
	case take:
		a.calls = []toolCall{{tool: st.mcp("acquire"), input: object{"keys": []string{s.what}}}}
	case nest:
		words := append([]string{st.program}, st.args(mark(s.what))...)
		for i, w := range words {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		a.calls = []toolCall{st.shell(t, strings.Join(words, " ")+" </dev/null")}
	case spawn:
		for _, who := range strings.Fields(s.what) {
			a.calls = append(a.calls, st.spawn(t, mark(who)))
		}
	}
	return a
}

// shown is what the model is asked next in a conversation. It does not wait for a
// session that has ended.
func (st *stage) shown(ctx context.Context, who string) (turn, error) {
	if t, ok := st.pending[who]; ok {
		return t, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for name, s := range st.running {
		if name == who || !slices.Contains(st.top, who) {
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				select {
				case <-s.done:
					cancel(fmt.Errorf("session %s has ended: %s", name, tail(s.out)))
				case <-stop:
				}
			}()
		}
	}
	t, err := st.model.talk(who).next(ctx)
	if err == nil {
		st.pending[who] = t
	}
	return t, err
}

// judge compares what came back with what is wanted.
func (s step) judge(results []string, err error) (string, error) {
	seen := strings.Join(results, "\n")
	if err != nil {
		return seen, err
	}
	for _, w := range s.want {
		if !strings.Contains(seen, w) {
			return seen, &notAsWanted{fmt.Sprintf("%q is missing", w)}
		}
	}
	for _, w := range s.not {
		if strings.Contains(seen, w) {
			return seen, &notAsWanted{fmt.Sprintf("%q is there", w)}
		}
	}
	return seen, nil
}

// person runs a command as somebody who sits at the keyboard.
func (st *stage) person(ctx context.Context, s step) (string, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", s.what)
	cmd.Dir, cmd.Env = st.repo, append(st.environ(), "TASKLOCK_OWNER=person")
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() == nil {
		return string(out), &notAsWanted{err.Error()}
	}
	return s.judge([]string{string(out)}, err)
}

func (s step) String() string {
	names := map[action]string{start: "starts", shell: "runs", write: "writes", take: "acquires by MCP", nest: "starts a session", spawn: "starts subagents", await: "waits", finish: "ends", kill: "is killed", person: "types"}
	return strings.TrimSpace(s.who + " " + names[s.do] + " " + s.what)
}

func tail(file string) string {
	b, _ := os.ReadFile(file)
	if len(b) > 2000 {
		b = b[len(b)-2000:]
	}
	return strings.Join(strings.Fields(string(b)), " ")
}

func indent(text string) string {
	if text == "" {
		return ""
	}
	return "      | " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n      | ") + "\n"
}
