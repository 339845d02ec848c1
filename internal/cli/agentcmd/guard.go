package agentcmd

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/cli/view"
	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/githooks"
	"github.com/tasklock/tasklock/internal/guard"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/internal/repo"
)

// guardOptions say which pushes need a key.
type guardOptions struct {
	require  string
	branches []string
}

func NewGuard(s *session.Session) *cobra.Command {
	o := &guardOptions{}
	install := &cobra.Command{
		Use:   "install [--require [KEY] --branch BRANCH]",
		Short: "Make git refuse commits and pushes to paths of others",
		Long: `Make git refuse commits and pushes that touch paths of other owners.

The guard goes into the pre-commit and pre-push hooks that git runs (core.hooksPath
is respected): into an existing hook that is a shell script, into the file of the
program that manages the hooks (husky: .husky/pre-commit; lefthook: lefthook.yml),
else next to the hook, which then runs after the guard. "guard install" is
idempotent; "guard remove" restores everything.

With --require, pre-push also refuses pushes to a branch by those who do not hold its
key: by default that of tasklock land, land:REMOTE/BRANCH. So nobody lands out of turn.

If the guard cannot decide, it lets git go on, unless hooks.strict is configured; a
push that needs a key is refused. A person can pass the guard with --no-verify.`,
		Example: `  tasklock guard install
  tasklock guard install --require --branch main`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case o.require == "" && len(o.branches) > 0:
				return session.Usagef("--branch goes with --require")
			case o.require == "" || len(args) > 1:
				return session.NoArgs(nil, args)
			}
			return nil
		},
		RunE: s.Run(func(ctx context.Context, args []string) error { return o.install(ctx, s, args) }),
	}
	install.Flags().StringVar(&o.require, "require", "", "refuse pushes to --branch without this `KEY` (default land:REMOTE/BRANCH)")
	install.Flags().Lookup("require").NoOptDefVal = byLand
	install.Flags().StringArrayVar(&o.branches, "branch", nil, "a `BRANCH` that needs the key (default main; may be repeated)")
	remove := &cobra.Command{
		Use: "remove", Short: "Take the guard out of git's hooks, and restore them",
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return changeHooks(ctx, s, false, nil) }),
	}
	check := &cobra.Command{
		Use:   "check",
		Short: "Check whether changes touch paths of others (exit 6)",
		Long: `Compare the changes in this worktree, with untracked files, with the paths that
others have locked. It also reports a guard that is installed but that git does not
call, in this worktree or another one.

Exit codes:
  0  no change touches a path of others
  6  one does`,
		Args: session.NoArgs,
		RunE: s.Run(func(ctx context.Context, _ []string) error { return guardCheck(ctx, s) }),
	}
	run := &cobra.Command{
		Use: "run HOOK [ARG...]", Short: "Serve git's hook", Hidden: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || !slices.Contains(githooks.Names, args[0]) {
				return session.Usagef("needs the name of a hook: %s", strings.Join(githooks.Names, " or "))
			}
			return nil
		},
		RunE: s.Run(func(ctx context.Context, args []string) error { return guardRun(ctx, s, args[0], args[1:]) }),
	}
	return session.Group("guard", "Make git hooks enforce path locks", install, check, remove, run)
}

// byLand is the value of --require without a key.
const byLand = "land"

// install installs the guard, with the requirements.
func (o *guardOptions) install(ctx context.Context, s *session.Session, args []string) error {
	var needs []githooks.Requirement
	key := o.require
	if len(args) > 0 {
		key = args[0]
	}
	if key != "" && len(o.branches) == 0 {
		o.branches = []string{"main"}
	}
	for _, branch := range o.branches {
		r := githooks.Requirement{Branch: branch, Key: key}
		if key == byLand {
			r.Key = ""
		}
		if _, err := lease.CheckKey(r.KeyFor("origin")); err != nil {
			return err
		}
		needs = append(needs, r)
	}
	return changeHooks(ctx, s, true, needs)
}

// guardTime bounds what a guard asks git and the store.
const guardTime = 20 * time.Second

// touchedBy compares files, by their names in the repository, with the locks of
// others.
func touchedBy(ctx context.Context, s *session.Session, files []string) ([]guard.TouchedFile, error) {
	st, err := s.Store(ctx, false)
	if err != nil {
		return nil, err
	}
	return guard.Touched(ctx, st, s.Names(), files)
}

type guardData struct {
	Changed int                 `json:"changed"` // how many files were compared
	Touched []guard.TouchedFile `json:"touched"`
	Guard   []githooks.State    `json:"guard"` // in this worktree and the others
}

func guardCheck(ctx context.Context, s *session.Session) error {
	tree, err := repo.TreeOf(s.Dir)
	if err != nil {
		return err
	}
	files, err := git.Changed(ctx, tree.Top)
	if err != nil {
		return err
	}
	touched, err := touchedBy(ctx, s, files)
	if err != nil {
		return err
	}
	states, _ := githooks.States(ctx, s.Dir, s.Env) // what others have locked is known without it
	err = s.Answer(guardData{len(files), touched, states}, func(p *term.Printer) {
		printTouched(p, touched)
		if len(touched) == 0 {
			p.Line("%s changed, none of them locked by others.", term.Plural(len(files), "file"))
		}
		printDeadGuards(p, githooks.Dead(states))
	})
	if err == nil && len(touched) > 0 {
		return session.ExitError(problem.Locked)
	}
	return err
}

// printTouched prints one line a file, and few of them.
func printTouched(p *term.Printer, files []guard.TouchedFile) {
	said := map[string]bool{}
	for i, f := range files {
		if i == session.AgentLimit {
			p.Line("… and %d more.", len(files)-i)
			break
		}
		p.Line("%s is locked by %s (%s), %s.", term.Short(f.File, 120), term.Short(f.Owner, 120), term.Short(f.Key, 120), view.EndsIn(p, f.ExpiresAt))
		if why := view.ReasonOf(f.Reason); why != "" && !said[f.Key] { // once for each lock
			p.Line("%s", why)
			said[f.Key] = true
		}
	}
}

// guardRun is what git's hooks call. Exit 1 refuses.
func guardRun(ctx context.Context, s *session.Session, hook string, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, guardTime)
	defer cancel()
	refs, err := pushedRefs(s, hook)
	if hook == "pre-push" {
		if refused := requireKeys(ctx, s, args, refs, err); refused != nil {
			return refused
		}
	}
	var files []string
	if err == nil {
		files, err = guardedFiles(ctx, s, hook, args, refs)
	}
	var touched []guard.TouchedFile
	if err == nil && len(files) > 0 {
		touched, err = touchedBy(ctx, s, files)
	}
	strict := false
	if cfg, bad := s.Config(); bad == nil {
		strict = cfg.StrictHooks()
	}
	switch {
	case err != nil && strict:
		return fmt.Errorf("guard: %w; hooks.strict is set, so the guard refuses what it cannot judge", err)
	case err != nil:
		s.Warn("guard: cannot tell what others have locked: %s", s.Problem(err).Message)
		return nil
	case len(touched) == 0:
		return nil
	}
	p := &term.Printer{W: s.Stderr, Colour: s.Colour(s.Stderr), Now: s.Now()}
	p.Line("%s%s touches what others have locked:", term.Red.Of("Error: "), map[string]string{"pre-commit": "this commit", "pre-push": "this push"}[hook])
	printTouched(p, touched)
	wait := s.CommandLine("wait", touched[0].Key, "--wait", "90s")
	if other := s.OtherWork(); other != "" && s.Identity().Agent {
		p.Line("Next: %s", other)
		p.Line("Or wait: %s", wait)
	} else {
		p.Line("Next: %s", wait)
	}
	_ = p.Flush()
	return session.ExitError(problem.Error)
}

// pushedRefs is what git says on the input of a pre-push hook.
func pushedRefs(s *session.Session, hook string) (string, error) {
	if hook != "pre-push" {
		return "", nil
	}
	refs, err := io.ReadAll(io.LimitReader(s.Stdin, maxRefs+1))
	if err == nil && len(refs) > maxRefs {
		err = fmt.Errorf("more than %d bytes of input", maxRefs)
	}
	return string(refs), err
}

// guardedFiles are those that a commit or a push would change.
func guardedFiles(ctx context.Context, s *session.Session, hook string, args []string, refs string) ([]string, error) {
	if hook == "pre-commit" {
		return git.Staged(ctx, s.Dir)
	}
	return git.Pushed(ctx, s.Dir, args, refs)
}

// requireKeys refuses a push to a branch whose key the caller does not hold. What it
// cannot find out is refused too: who asks for nothing is not held up by this.
func requireKeys(ctx context.Context, s *session.Session, args []string, refs string, unread error) error {
	needs := githooks.Required(ctx, s.Dir, args, refs)
	if unread != nil && len(githooks.Requirements(ctx, s.Dir)) > 0 {
		return unread
	}
	for _, need := range needs {
		err := holdsKey(ctx, s, need.Key)
		if err == nil {
			continue
		}
		p := &term.Printer{W: s.Stderr, Colour: s.Colour(s.Stderr), Now: s.Now()}
		p.Line("%spushes to %s need the lock %s: %s.", term.Red.Of("Error: "), need.Branch, need.Key, s.Problem(err).Message)
		p.Line("Next: %s", landLine(s, need, args))
		_ = p.Flush()
		return session.ExitError(problem.Error)
	}
	return nil
}

// holdsKey is nil if the caller holds a key: in the store of the lease that it runs
// under, if that has the key, else in the one of this folder.
func holdsKey(ctx context.Context, s *session.Session, key string) error {
	s, err := s.About(ctx, key)
	if err != nil {
		return err
	}
	st, err := s.Store(ctx, false)
	if err != nil {
		return err
	}
	for _, owner := range s.Names() {
		if _, err = lease.Check(ctx, st, lease.CheckRequest{Key: key, HeldBy: owner}); err == nil {
			return nil
		}
	}
	return err
}

// landLine is the command that pushes in turn.
func landLine(s *session.Session, need githooks.Requirement, args []string) string {
	words := []string{"land", "--onto", need.Branch}
	remote := "origin"
	if len(args) > 1 && args[0] != args[1] && args[0] != remote {
		remote = args[0]
		words = append(words, "--remote", remote)
	}
	if need.Key != "land:"+remote+"/"+need.Branch {
		words = append(words, "--key", need.Key)
	}
	return s.CommandLine(append(words, "--", "TEST")...)
}

// maxRefs bounds what git says on the input of a pre-push hook.
const maxRefs = 1 << 20

// changeHooks installs or removes the guard.
func changeHooks(ctx context.Context, s *session.Session, install bool, needs []githooks.Requirement) error {
	change := githooks.Remove
	if install {
		change = githooks.Install
	}
	done, err := change(ctx, s.Dir, s.DryRun)
	if done.Outside != "" {
		s.Note("Note: core.hooksPath is %s, outside this repository: the guard runs wherever it is used.", done.Outside)
	}
	if err != nil {
		return err
	}
	for _, r := range needs {
		if s.DryRun {
			break
		}
		if err := githooks.Require(ctx, s.Dir, r); err != nil {
			return err
		}
	}
	changes := done.Hooks
	var dead []githooks.State
	if install && !s.DryRun {
		all, _ := githooks.States(ctx, s.Dir, s.Env)
		dead = githooks.Dead(all)
	}
	return s.Answer(map[string]any{"hooks": changes, "notLive": dead, "require": needs}, func(p *term.Printer) {
		for _, c := range changes {
			guardLine(p, c)
		}
		for _, r := range needs {
			p.Line("Pushes from this clone to %s %s the lock %s.", r.Branch, p.Did("need", "would need"), r.KeyFor("REMOTE"))
		}
		if names := toCommit(s, changes); install && len(names) > 0 {
			p.Line("Commit what is new, so that other clones and worktrees have it: git add %s", term.QuotedLine(names))
		}
		printDeadGuards(p, dead)
	})
}

// toCommit names the changed files that git can track.
func toCommit(s *session.Session, changes []githooks.Change) (names []string) {
	tree, err := repo.TreeOf(s.Dir)
	for _, c := range changes {
		if err != nil || c.Did == "unchanged" || repo.Within(tree.Git, c.File) || !repo.Within(tree.Top, c.File) {
			continue
		}
		if name, err := filepath.Rel(tree.Top, c.File); err == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func guardLine(p *term.Printer, c githooks.Change) {
	switch c.Did {
	case "installed":
		if c.In {
			p.Line("%s the guard into %s.", p.Did("Put", "Would put"), c.File)
			break
		}
		p.Line("%s %s.", p.Did("Installed", "Would install"), c.File)
	case "updated":
		p.Line("%s %s.", p.Did("Updated", "Would update"), c.File)
	case "removed":
		if c.In {
			p.Line("%s the guard out of %s.", p.Did("Took", "Would take"), c.File)
			break
		}
		p.Line("%s %s.", p.Did("Removed", "Would remove"), c.File)
	case "unchanged":
		p.Line("%s is there already.", c.File)
	case "absent":
		p.Line("%s is not there.", c.File)
	case "foreign":
		p.Line("%s is not tasklock's, and stays.", c.File)
	}
	if c.Kept != "" && c.Did == "removed" {
		p.Line("%s is %s again.", c.Kept, c.Hook)
	} else if c.Kept != "" {
		p.Line("The former hook runs after it, as %s.", c.Kept)
	}
	for _, file := range c.Orphans {
		p.Line("%s %s, which nothing ran any more.", p.Did("Removed", "Would remove"), file)
	}
}

// printDeadGuards prints one line for each.
func printDeadGuards(p *term.Printer, dead []githooks.State) {
	for _, s := range dead {
		p.Line("The guard is not live for %s in %s: %s.", s.Hook, s.Worktree, s.Why)
		if next := inFolder(s.Worktree, s.Next); next != "" {
			p.Line("Next: %s", next)
		}
	}
}

// inFolder is a command for another folder; nothing stays nothing.
func inFolder(dir, command string) string {
	if command == "" {
		return ""
	}
	return "cd " + term.ShellQuote(dir) + " && " + command
}
