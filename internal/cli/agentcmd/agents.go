// Package agentcmd has the commands that coding agents and git call, and those that
// install them: hooks, the guard, the MCP server, the guide. Each New function makes
// the command of its name.
package agentcmd

import (
	"bufio"
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/harness"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/internal/repo"
)

type agentsOptions struct {
	check, remove, print, yes, local bool
}

func NewAgents(s *session.Session) *cobra.Command {
	o := &agentsOptions{}
	install := &cobra.Command{
		Use:   "install HARNESS",
		Short: "Set up a coding agent for this project: hooks, MCP server, guidance",
		Long: `Write what a coding agent needs to respect locks into this project: its hooks, an
entry for "tasklock mcp", and a marked paragraph in the file that the agent reads
(AGENTS.md, CLAUDE.md, GEMINI.md). HARNESS is claude, codex, gemini, cursor, pi or
opencode.

Existing text and comments stay, and a file that cannot be read is not changed. On a
terminal it asks before each file. install and --remove are idempotent; --remove
takes out exactly what install put in.

Commit the files to share them: a colleague without tasklock gets one line at the
start of a session. --local sets up this worktree for you alone: git does not track
the files. With hooks.strict in the configuration, the hooks also deny when tasklock
is missing or too slow (too slow: Claude Code only).`,
		Example: `  tasklock agents install claude
  tasklock agents install claude --local
  tasklock agents install codex --print
  tasklock agents install gemini --remove`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return session.Usagef("takes one harness: %s", strings.Join(harness.Installable(), ", "))
			}
			return nil
		},
		ValidArgs: harness.Installable(),
		RunE:      s.Run(func(ctx context.Context, args []string) error { return o.run(ctx, s, args[0]) }),
	}
	f := install.Flags()
	f.BoolVar(&o.check, "check", false, "check whether it is set up: exit 0, else 4")
	f.BoolVar(&o.remove, "remove", false, "remove what install wrote")
	f.BoolVar(&o.print, "print", false, "print the files, write nothing")
	f.BoolVar(&o.local, "local", false, "for you alone, in files that git does not track")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	install.MarkFlagsMutuallyExclusive("check", "remove", "print")
	return session.Group("agents", "Set up coding agents", install)
}

func (o *agentsOptions) run(ctx context.Context, s *session.Session, name string) error {
	in, err := newInstallation(ctx, s, name)
	if err != nil {
		return err
	}
	var plan []planned // of all files, before one is written
	switch {
	case o.remove:
		plan, err = in.removal(o.local)
	case o.check && !o.local:
		plan, err = in.whicheverIsThere()
	default:
		plan, err = in.plan(o.local)
	}
	switch {
	case err != nil:
		return err
	case o.print:
		return o.show(s, plan)
	case o.check:
		return o.tell(s, name, plan)
	}
	ask := !o.yes && !s.DryRun && term.IsTerminal(s.Stdin) && term.IsTerminal(s.Stderr)
	if !ask && !o.yes && !s.DryRun {
		if err := staysIn(in.tree, plan); err != nil {
			return err
		}
	}
	stdin := bufio.NewReader(s.Stdin)
	for i := range plan {
		if err := plan[i].carryOut(s, in.tree.Top, ask, stdin); err != nil {
			return err
		}
	}
	return o.answer(s, plan, in.sharing(plan, o))
}

// installation is a harness in a worktree.
type installation struct {
	ctx   context.Context
	tree  repo.Tree
	setup harness.Setup
}

func newInstallation(ctx context.Context, s *session.Session, name string) (*installation, error) {
	in := &installation{ctx: ctx}
	var err error
	if in.tree, err = repo.TreeOf(s.Dir); err != nil {
		return nil, err
	}
	if in.tree.Top == in.tree.Git {
		return nil, session.Usagef("%s is a bare repository, which has no files: run it in a worktree", in.tree.Git)
	}
	in.setup = harness.Setup{Harness: name}
	if _, err := in.setup.Files(); err != nil {
		return nil, session.Usagef("%v", err)
	}
	if cfg, err := s.Config(); err == nil {
		in.setup.Strict = cfg.StrictHooks()
	}
	in.setup.Read = reader(in.tree.Top, s.Env("HOME"))
	return in, nil
}

// reader reads files of a worktree, and those of a home with "~/" in front.
func reader(top, home string) func(string) []byte {
	return func(name string) []byte {
		path := top + "/" + name
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			if home == "" {
				return nil
			}
			path = home + "/" + rest
		}
		text, err := os.ReadFile(path)
		if err == nil && text == nil {
			text = []byte{}
		}
		return text
	}
}

// sharing is what to do so that others get the files too.
type sharing struct {
	Commit    []string `json:"commit,omitempty"`    // files that git would take
	Ignored   []string `json:"ignored,omitempty"`   // files that git ignores, although others should have them
	Worktrees []string `json:"worktrees,omitempty"` // where they are missing
}

func (in *installation) sharing(plan []planned, o *agentsOptions) (s sharing) {
	if o.remove || in.tree.Git == "" {
		return s
	}
	for _, p := range plan {
		name, err := in.tree.Name(in.tree.Top, p.File)
		switch {
		case p.Did != "written" || p.git || o.local || err != nil:
		case in.ignored(name):
			s.Ignored = append(s.Ignored, name)
		default:
			s.Commit = append(s.Commit, name)
		}
	}
	for _, other := range git.OtherWorktrees(in.ctx, in.tree) {
		if missing, err := in.in(other).missing(o.local); err != nil || len(missing) > 0 {
			s.Worktrees = append(s.Worktrees, other)
		}
	}
	return s
}

func (o *agentsOptions) answer(s *session.Session, plan []planned, shares sharing) error {
	data := struct {
		Files []planned `json:"files"`
		sharing
	}{shown(plan), shares}
	return s.Answer(data, func(p *term.Printer) {
		for _, f := range shown(plan) {
			o.line(p, f)
		}
		if len(shares.Commit) > 0 {
			p.Line("Commit these files, so that other clones and worktrees have them: git add %s", strings.Join(shellWordsOf(shares.Commit), " "))
		}
		for _, name := range shares.Ignored {
			p.Line("%s is ignored by git, so nobody else gets it.", name)
		}
		switch n := len(shares.Worktrees); {
		case n > 0 && o.local:
			p.Line("Other worktrees do not have them; run this there too: %s", strings.Join(shares.Worktrees, ", "))
		case n > 0:
			p.Line("Other worktrees do not have them until they merge that commit: %s", strings.Join(shares.Worktrees, ", "))
		}
	})
}

func (o *agentsOptions) line(p *term.Printer, f planned) {
	switch {
	case f.Did == "unchanged" && o.remove:
		p.Line("%s has nothing of tasklock.", f.File)
	case f.Did == "unchanged":
		p.Line("%s is set up already.", f.File)
	case f.Did == "skipped":
		p.Line("%s is left unchanged.", f.File)
	case f.Did == "tracked" && f.ByHand != "":
		p.Line("git tracks %s or would, so it is left unchanged; for you alone: %s", f.File, f.ByHand)
	case f.Did == "tracked":
		p.Line("git tracks %s or would, so it is left unchanged.", f.File)
	case f.Did == "kept":
		p.Line("%s keeps %s: another agent reads it there.", f.File, f.What)
	case f.Did == "removed":
		p.Line("%s %s.", p.Did("Removed", "Would remove"), f.File)
	case o.remove || f.is == nil:
		p.Line("%s %s out of %s.", p.Did("Took", "Would take"), f.What, f.File)
	default:
		p.Line("%s %s: %s.", p.Did("Wrote", "Would write"), f.File, f.What)
	}
}

func (o *agentsOptions) show(s *session.Session, plan []planned) error {
	texts := map[string]string{}
	for _, f := range shown(plan) {
		texts[f.File] = string(f.is)
	}
	return s.Answer(map[string]any{"files": texts}, func(p *term.Printer) {
		for _, f := range shown(plan) {
			p.Line("%s:", term.Strong.Of(f.File))
			for line := range strings.Lines(string(f.is)) {
				p.Line("%s", strings.TrimRight(line, "\r\n"))
			}
			p.Line("")
		}
	})
}

func (o *agentsOptions) tell(s *session.Session, name string, plan []planned) error {
	missing := missingOf(plan)
	err := s.Answer(map[string]any{"installed": len(missing) == 0, "missing": missing}, func(p *term.Printer) {
		for _, f := range missing {
			p.Line("%s is not set up.", f)
		}
		if len(missing) == 0 {
			p.Line("%s is set up.", name)
			return
		}
		next := []string{"agents", "install", name}
		if o.local {
			next = append(next, "--local")
		}
		p.Line("Next: %s", s.CommandLine(next...))
	})
	if err == nil && len(missing) > 0 {
		return session.ExitError(problem.None)
	}
	return err
}

func shellWordsOf(words []string) (out []string) {
	for _, w := range words {
		out = append(out, term.ShellQuote(w))
	}
	return out
}

func (in *installation) ignored(name string) bool {
	_, err := git.Run(in.ctx, in.tree.Top, "check-ignore", "-q", "--", name)
	return err == nil
}

func (in *installation) tracked(name string) bool {
	_, err := git.Run(in.ctx, in.tree.Top, "ls-files", "--error-unmatch", "--", name)
	return in.tree.Git != "" && err == nil
}
