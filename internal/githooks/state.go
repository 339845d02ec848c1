package githooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/repo"
)

// A State says whether git really calls the guard, for one hook in one worktree.
type State struct {
	Worktree string `json:"worktree"`
	Hook     string `json:"hook"`
	File     string `json:"file"` // the guard stands in it, or would
	Live     bool   `json:"live"`
	Why      string `json:"why,omitempty"`
	Next     string `json:"next,omitempty"` // the command that helps

	wanted bool // somebody installed it
}

// installCommand is the command that puts the guard where it is missing.
const installCommand = "tasklock guard install"

// States returns the states of the guard in the worktree of a folder, then in the
// repository's other worktrees. Outside a repository there are none.
func States(ctx context.Context, dir string, env func(string) string) ([]State, error) {
	tree, err := repo.TreeOf(dir)
	if err != nil || tree.Git == "" {
		return nil, err
	}
	out, err := statesIn(ctx, tree.Top, env)
	for _, other := range git.OtherWorktrees(ctx, tree) {
		if more, err := statesIn(ctx, other, env); err == nil {
			out = append(out, more...)
		}
	}
	return out, err
}

// Dead returns the guards that somebody installed and git does not call. A guard
// that stands in one worktree is wanted in all.
func Dead(all []State) (dead []State) {
	wanted := slices.ContainsFunc(all, func(s State) bool { return s.wanted || s.Live })
	for _, s := range all {
		if wanted && !s.Live {
			dead = append(dead, s)
		}
	}
	return dead
}

// AskTime is how long [Live] lets git look for its hooks: an agent's hook must
// answer even if git hangs. Tests are more patient.
var AskTime = 500 * time.Millisecond

// Live reports whether git calls the guard in a folder.
func Live(ctx context.Context, dir string, env func(string) string) bool {
	if !repo.IsDir(dir) {
		return false
	}
	tree, err := repo.TreeOf(dir)
	if err != nil || tree.Git == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	states, err := statesIn(ctx, tree.Top, env)
	return err == nil && slices.ContainsFunc(states, func(s State) bool { return s.Live })
}

// statesIn looks at a worktree as git does.
func statesIn(ctx context.Context, top string, env func(string) string) (out []State, err error) {
	_, notNoted := git.Run(ctx, top, "config", "--get", noteKey)
	hooks, err := hooksFolder(ctx, top)
	if err != nil && !errors.Is(err, errNoHooks) {
		return nil, err
	}
	for _, hook := range Names {
		s := State{Worktree: top, Hook: hook, wanted: notNoted == nil}
		if err != nil {
			s.Why = err.Error()
		} else {
			p := placeOf(hooks, top, hook)
			s.File = p.File
			s.Why, s.Next = p.fault(env)
			s.Live = s.Why == ""
			s.wanted = s.wanted || p.guarded() || s.Next != installCommand || repo.Exists(p.Run+keptEnd)
		}
		out = append(out, s)
	}
	return out, nil
}

// fault says why git does not call the guard, and which command helps; empty: it
// does.
func (p place) fault(env func(string) string) (why, next string) {
	script, err := os.ReadFile(p.Run)
	manager := map[string]string{"husky": "npx husky", "lefthook": "lefthook install", "pre-commit": "pre-commit install -t " + p.Hook}[p.Manager]
	switch guarded := p.guarded(); {
	case !guarded && err == nil && guards(script) && executable(p.Run): // an earlier version put it there
	case !guarded:
		return p.File + " does not call it", installCommand
	case err != nil && p.Manager != "":
		return p.Manager + " has not put its hooks into this worktree: " + p.Run + " is missing", manager
	case err != nil:
		return p.Run + ": " + err.Error(), installCommand
	case !executable(p.Run):
		return p.Run + " is not executable, so git does not run it", "chmod +x " + shellWord(p.Run)
	case p.Manager != "" && !p.managed(script):
		return p.Run + " does not run " + p.Manager, manager
	case p.Manager == "pre-commit" && !executable(p.File):
		return p.File + " is not executable", "chmod +x " + shellWord(p.File)
	case p.Manager == "lefthook" && p.condition() != "":
		return fmt.Sprintf("lefthook runs %s under a condition only: %q in %s", p.Hook, p.condition(), p.File), ""
	case p.Manager == "husky" && env("HUSKY") == "0", p.Manager == "lefthook" && env("LEFTHOOK") == "0":
		return strings.ToUpper(p.Manager) + "=0 is set, so " + p.Manager + " runs no hook", "unset " + strings.ToUpper(p.Manager)
	}
	if _, err := exec.LookPath("tasklock"); err != nil {
		return "tasklock is not on the PATH, so the hook passes it over", ""
	}
	return "", ""
}

// shellWord is a path as one word of a command line.
func shellWord(path string) string {
	word, err := syntax.Quote(path, syntax.LangBash)
	if err != nil { // a NUL byte, which no path has
		return path
	}
	return word
}
