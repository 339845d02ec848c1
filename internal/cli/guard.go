package cli

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/lease"
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
			if len(args) == 0 || !slices.Contains(guarded, args[0]) {
				return usagef("needs the name of a hook: %s", strings.Join(guarded, " or "))
			}
			return nil
		},
		RunE: a.does(func(ctx context.Context, args []string) error { return a.guardRun(ctx, args[0], args[1:]) }),
	}
	return a.group("guard", "Let git keep to the path locks", install, check, remove, run)
}

// guardTime bounds what a guard asks git and the store.
const guardTime = 20 * time.Second

// touchedFile is a file that somebody else has locked.
type touchedFile struct {
	File      string       `json:"file"`
	Key       string       `json:"key"`
	Owner     string       `json:"owner"`
	ExpiresAt lease.Expiry `json:"expiresAt"`
	Reason    string       `json:"reason,omitempty"` // in the holder's words
}

// touchedBy compares files, by their names in the repository, with the locks of
// others.
func (a *App) touchedBy(ctx context.Context, files []string) ([]touchedFile, error) {
	st, err := a.Store(ctx, false)
	if err != nil {
		return nil, err
	}
	globs := make([]lease.Glob, len(files))
	for i, f := range files {
		globs[i] = lease.File(f)
	}
	found, err := lease.Touching(ctx, st, lease.TouchingRequest{Owners: a.names(), Places: globs})
	if err != nil {
		return nil, err
	}
	out := []touchedFile{}
	for _, l := range found {
		_, name := lease.KindOf(l.Key)
		g, err := lease.ParseGlob(name)
		if err != nil {
			return nil, err
		}
		for i, f := range files {
			if g.Overlaps(globs[i]) {
				out = append(out, touchedFile{f, l.Key, l.Owner, l.ExpiresAt, l.Reason})
			}
		}
	}
	return out, nil
}

type guardData struct {
	Changed int           `json:"changed"` // how many files were compared
	Touched []touchedFile `json:"touched"`
	Guard   []guardState  `json:"guard"` // in this worktree and the others
}

func (a *App) guardCheck(ctx context.Context) error {
	tree, err := repo.TreeOf(a.Dir)
	if err != nil {
		return err
	}
	files, err := changedFiles(ctx, guardTime, tree.Top, ".")
	if err != nil {
		return gitError("status", err)
	}
	touched, err := a.touchedBy(ctx, files)
	if err != nil {
		return err
	}
	guard, _ := a.allGuards(ctx) // what others have locked is known without it
	err = a.answer(guardData{len(files), touched, guard}, func(p *printer) {
		p.touched(touched)
		if len(touched) == 0 {
			p.line("%s changed, none of them locked by others.", plural(len(files), "file"))
		}
		p.deadGuards(deadOf(guard))
	})
	if err == nil && len(touched) > 0 {
		return &exitWith{problem.Locked}
	}
	return err
}

// touched prints one line a file, and few of them.
func (p *printer) touched(files []touchedFile) {
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
	var files []string
	var err error
	if hook == "pre-commit" {
		files, err = a.gitNames(ctx, "diff", "--cached", "--name-only", "--no-renames", "-z")
	} else {
		files, err = a.pushedFiles(ctx, args)
	}
	var touched []touchedFile
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
	p.line("%s%s touches what others have locked:", styled{"Error: ", red}, map[string]string{"pre-commit": "this commit", "pre-push": "this push"}[hook])
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

// pushedFiles reads what git tells a pre-push hook, and asks which files the
// commits touch that the remote does not have.
func (a *App) pushedFiles(ctx context.Context, args []string) ([]string, error) {
	remote := ""
	if len(args) > 0 && !(len(args) > 1 && args[0] == args[1]) { // else an address, and what any remote has is not new
		remote = "=" + args[0]
	}
	text, err := readAll(a.Stdin, 1<<20)
	if err != nil {
		return nil, err
	}
	var files []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line) // local ref, local commit, remote ref, remote commit
		if len(f) != 4 || strings.Trim(f[1], "0") == "" {
			continue // a branch is deleted: no file is touched
		}
		names, err := a.gitNames(ctx, "diff", "--name-only", "--no-renames", "-z", f[3]+"..."+f[1])
		if strings.Trim(f[3], "0") == "" || err != nil { // new there, or not known here
			names, err = a.gitNames(ctx, "log", "--name-only", "--no-renames", "--format=", "-z", f[1], "--not", "--remotes"+remote)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, names...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// gitNames runs git in the root of the worktree, where a hook runs, and returns
// the names it prints.
func (a *App) gitNames(ctx context.Context, args ...string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.WaitDelay = a.Dir, gitDelay
	out, err := cmd.Output()
	if err != nil {
		return nil, gitError(args[0], err)
	}
	var names []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name = strings.TrimLeft(name, "\n"); name != "" {
			names = append(names, name)
		}
	}
	return names, nil
}
