package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/githooks"
	"github.com/tasklock/tasklock/internal/guard"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/internal/repo"
)

func newGuardCmd(a *App) *cobra.Command {
	install := &cobra.Command{
		Use:   "install",
		Short: "Let git refuse commits and pushes that touch paths of others",
		Long: `Put the guard into the pre-commit and pre-push hooks that git runs (core.hooksPath is
respected): into the hook that is there if it is a shell script, into the file of the
program that manages the hooks (husky: .husky/pre-commit; lefthook: lefthook.yml),
else beside the hook, which then runs after the guard. "guard install" is idempotent;
"guard remove" puts everything back.

The guard refuses what touches a path that another owner has locked. If it cannot
find out, it lets git go on, unless hooks.strict is configured. A person can pass
it with --no-verify.`,
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.guardInstall(ctx) }),
	}
	remove := &cobra.Command{
		Use: "remove", Short: "Take the guard out of git's hooks, and put back what was there",
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.guardRemove(ctx) }),
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Do unsaved changes touch paths of others? Exit 0: no, 6: yes",
		Long: `Compare what is changed in this worktree, untracked files included, with the paths
that others have locked. Also tells where a guard that was installed is not live: git
does not call it, in this worktree or another one.`,
		Args: noArgs,
		RunE: a.does(func(ctx context.Context, _ []string) error { return a.guardCheck(ctx) }),
	}
	run := &cobra.Command{
		Use: "run HOOK [ARG...]", Short: "Serve git's hook", Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || !slices.Contains(githooks.Names, args[0]) {
				return usagef("needs the name of a hook: %s", strings.Join(githooks.Names, " or "))
			}
			return nil
		},
		RunE: a.does(func(ctx context.Context, args []string) error { return a.guardRun(ctx, args[0], args[1:]) }),
	}
	return a.group("guard", "Let git keep to the path locks", install, check, remove, run)
}

// guardTime bounds what a guard asks git and the store.
const guardTime = 20 * time.Second

// touchedBy compares files, by their names in the repository, with the locks of
// others.
func (a *App) touchedBy(ctx context.Context, files []string) ([]guard.TouchedFile, error) {
	st, err := a.Store(ctx, false)
	if err != nil {
		return nil, err
	}
	return guard.Touched(ctx, st, a.names(), files)
}

type guardData struct {
	Changed int                 `json:"changed"` // how many files were compared
	Touched []guard.TouchedFile `json:"touched"`
	Guard   []githooks.State    `json:"guard"` // in this worktree and the others
}

func (a *App) guardCheck(ctx context.Context) error {
	tree, err := repo.TreeOf(a.Dir)
	if err != nil {
		return err
	}
	files, err := git.Changed(ctx, tree.Top)
	if err != nil {
		return err
	}
	touched, err := a.touchedBy(ctx, files)
	if err != nil {
		return err
	}
	states, _ := githooks.States(ctx, a.Dir, a.Env) // what others have locked is known without it
	err = a.answer(guardData{len(files), touched, states}, func(p *printer) {
		p.touched(touched)
		if len(touched) == 0 {
			p.line("%s changed, none of them locked by others.", plural(len(files), "file"))
		}
		p.deadGuards(githooks.Dead(states))
	})
	if err == nil && len(touched) > 0 {
		return &exitWith{problem.Locked}
	}
	return err
}

// touched prints one line a file, and few of them.
func (p *printer) touched(files []guard.TouchedFile) {
	said := map[string]bool{}
	for i, f := range files {
		if i == agentLimit {
			p.line("… and %d more.", len(files)-i)
			break
		}
		p.line("%s is locked by %s (%s), %s.", short(f.File, 120), short(f.Owner, 120), short(f.Key, 120), p.endsIn(f.ExpiresAt))
		if why := reasonOf(f.Reason); why != "" && !said[f.Key] { // once for each lock
			p.line("%s", why)
			said[f.Key] = true
		}
	}
}

// guardRun is what git's hooks call. Exit 1 refuses.
func (a *App) guardRun(ctx context.Context, hook string, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, guardTime)
	defer cancel()
	files, err := a.guardedFiles(ctx, hook, args)
	var touched []guard.TouchedFile
	if err == nil && len(files) > 0 {
		touched, err = a.touchedBy(ctx, files)
	}
	strict := false
	if cfg, bad := a.Config(); bad == nil {
		strict = cfg.StrictHooks()
	}
	switch {
	case err != nil && strict:
		return fmt.Errorf("guard: %w; hooks.strict is set, so what cannot be judged is refused", err)
	case err != nil:
		a.warn("guard: cannot tell what others have locked: %s", a.problem(err).Message)
		return nil
	case len(touched) == 0:
		return nil
	}
	p := &printer{w: a.Stderr, colour: a.colour(a.Stderr), now: a.Now()}
	p.line("%s%s touches what others have locked:", red.of("Error: "), map[string]string{"pre-commit": "this commit", "pre-push": "this push"}[hook])
	p.touched(touched)
	wait := a.commandLine("wait", touched[0].Key, "--wait", "90s")
	if other := a.otherWork(); other != "" && a.Identity().Agent {
		p.line("Next: %s", other)
		p.line("Or wait: %s", wait)
	} else {
		p.line("Next: %s", wait)
	}
	_ = p.flush()
	return &exitWith{problem.Error}
}

// guardedFiles are those that a commit or a push would change.
func (a *App) guardedFiles(ctx context.Context, hook string, args []string) ([]string, error) {
	if hook == "pre-commit" {
		return git.Staged(ctx, a.Dir)
	}
	refs, err := io.ReadAll(io.LimitReader(a.Stdin, maxRefs+1))
	if err != nil {
		return nil, err
	}
	if len(refs) > maxRefs {
		return nil, fmt.Errorf("more than %d bytes of input", maxRefs)
	}
	return git.Pushed(ctx, a.Dir, args, string(refs))
}

// maxRefs bounds what git says on the input of a pre-push hook.
const maxRefs = 1 << 20
