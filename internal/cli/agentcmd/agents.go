// Package agentcmd has the commands that coding agents and git call, and those that
// install them: hooks, the guard, the MCP server, the guide. Each New function makes
// the command of its name.
package agentcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/harness"
	"github.com/tasklock/tasklock/internal/problem"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store/driver"
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
	in, err := projectOf(s, name)
	if err != nil {
		return err
	}
	var plan []harness.Edit // of all files, before one is written
	switch {
	case o.remove:
		plan, err = in.Removal(ctx, o.local)
	case o.check && !o.local:
		plan, err = in.Check(ctx)
	default:
		plan, err = in.Plan(ctx, o.local)
	}
	switch {
	case err != nil:
		return unreadable(err)
	case o.print:
		return o.show(s, plan)
	case o.check:
		return o.tell(s, name, plan)
	}
	ask := !o.yes && !s.DryRun && term.IsTerminal(s.Stdin) && term.IsTerminal(s.Stderr)
	if !ask && !o.yes && !s.DryRun {
		if err := staysIn(in.Tree, plan); err != nil {
			return err
		}
	}
	stdin := bufio.NewReader(s.Stdin)
	files := []done{}
	for _, e := range plan {
		d, err := carryOut(s, e, in.Tree.Top, ask, stdin)
		if err != nil {
			return err
		}
		files = append(files, d)
	}
	shares := o.sharing(ctx, in, files)
	return o.answer(s, slices.DeleteFunc(files, func(d done) bool { return d.edit.Quiet() }), shares)
}

// projectOf is the project of a session, to be set up for a harness.
func projectOf(s *session.Session, name string) (p harness.Project, err error) {
	if p.Tree, err = repo.TreeOf(s.Dir); err != nil {
		return p, err
	}
	if p.Tree.Top == p.Tree.Git {
		return p, session.Usagef("%s is a bare repository, which has no files: run it in a worktree", p.Tree.Git)
	}
	p.Setup = harness.Setup{Harness: name, Read: harness.Reader(p.Tree.Top, s.Env("HOME"))}
	if _, err := p.Setup.Files(); err != nil {
		return p, session.Usagef("%v", err)
	}
	if cfg, err := s.Config(); err == nil {
		p.Setup.Strict = cfg.StrictHooks()
	}
	return p, nil
}

// sharing is what to do so that others get the files too.
type sharing struct {
	Commit    []string `json:"commit,omitempty"`    // files that git would take
	Ignored   []string `json:"ignored,omitempty"`   // files that git ignores, although others should have them
	Worktrees []string `json:"worktrees,omitempty"` // where they are missing
}

func (o *agentsOptions) sharing(ctx context.Context, in harness.Project, files []done) (s sharing) {
	if o.remove || in.Tree.Git == "" {
		return s
	}
	for _, f := range files {
		name, err := in.Tree.Name(in.Tree.Top, f.File)
		switch {
		case f.Did != "written" || f.edit.Git || o.local || err != nil:
		case in.Ignored(ctx, name):
			s.Ignored = append(s.Ignored, name)
		default:
			s.Commit = append(s.Commit, name)
		}
	}
	for _, other := range git.OtherWorktrees(ctx, in.Tree) {
		if plan, err := in.In(other).Plan(ctx, o.local); err != nil || len(harness.Missing(plan)) > 0 {
			s.Worktrees = append(s.Worktrees, other)
		}
	}
	return s
}

func (o *agentsOptions) answer(s *session.Session, files []done, shares sharing) error {
	data := struct {
		Files []done `json:"files"`
		sharing
	}{files, shares}
	return s.Answer(data, func(p *term.Printer) {
		for _, f := range files {
			o.line(p, f)
		}
		if len(shares.Commit) > 0 {
			p.Line("Commit these files, so that other clones and worktrees have them: git add %s", term.QuotedLine(shares.Commit))
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

func (o *agentsOptions) line(p *term.Printer, f done) {
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
	case o.remove || f.edit.Is == nil:
		p.Line("%s %s out of %s.", p.Did("Took", "Would take"), f.What, f.File)
	default:
		p.Line("%s %s: %s.", p.Did("Wrote", "Would write"), f.File, f.What)
	}
}

func (o *agentsOptions) show(s *session.Session, plan []harness.Edit) error {
	plan = slices.DeleteFunc(plan, harness.Edit.Quiet)
	texts := map[string]string{}
	for _, e := range plan {
		texts[e.Path] = string(e.Is)
	}
	return s.Answer(map[string]any{"files": texts}, func(p *term.Printer) {
		for _, e := range plan {
			p.Line("%s:", term.Strong.Of(e.Path))
			for line := range strings.Lines(string(e.Is)) {
				p.Line("%s", strings.TrimRight(line, "\r\n"))
			}
			p.Line("")
		}
	})
}

func (o *agentsOptions) tell(s *session.Session, name string, plan []harness.Edit) error {
	missing := harness.Missing(plan)
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

func NewGuide(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "guide",
		Short: "Print one page of instructions for coding agents",
		Args:  session.NoArgs,
		RunE: s.Run(func(context.Context, []string) error {
			return s.Answer(map[string]string{"guide": harness.Guide}, func(p *term.Printer) {
				p.Text(harness.Guide)
			})
		}),
	}
}

// done is what became of a planned edit.
type done struct {
	File   string `json:"file"`
	What   string `json:"what"`
	Did    string `json:"did"` // written, removed, unchanged, skipped, tracked, kept
	ByHand string `json:"byHand,omitempty"`

	edit harness.Edit
}

// unreadable is an error about a file of a harness as one about settings.
func unreadable(err error) error {
	if bad := (*harness.FileError)(nil); errors.As(err, &bad) {
		return &config.Error{File: bad.Path, Msg: bad.Why}
	}
	return err
}

// staysIn refuses to follow a link out of the project without consent: the author of
// the repository made its links.
func staysIn(tree repo.Tree, plan []harness.Edit) error {
	for _, e := range plan {
		if _, err := tree.Name(tree.Top, e.Path); err != nil && !e.Same() && !e.Git {
			return fmt.Errorf("%w: a link leads out of this project, to %s; nothing changed; use --yes to follow it", driver.ErrUnsafe, e.Path)
		}
	}
	return nil
}

// carryOut makes an edit, if the person whom it asks agrees.
func carryOut(s *session.Session, e harness.Edit, top string, ask bool, in *bufio.Reader) (done, error) {
	d := done{File: e.Path, What: e.Of.What, ByHand: e.Of.ByHand, Did: "written", edit: e}
	switch {
	case e.Left != "":
		d.Did = e.Left
		return d, nil
	case e.Same():
		d.Did = "unchanged"
		return d, nil
	case ask && !agreed(s, e, in):
		d.Did = "skipped"
		return d, nil
	case e.Is == nil:
		d.Did = "removed"
	}
	if s.DryRun {
		return d, nil
	}
	err := e.Apply(top)
	if errors.Is(err, harness.ErrChanged) {
		err = session.Usagef("%v: run it again", err)
	}
	return d, err
}

func agreed(s *session.Session, e harness.Edit, in *bufio.Reader) bool {
	question := "Write " + e.Of.What + " into " + e.Path + "? [Y/n] "
	if e.Is == nil {
		question = "Remove " + e.Path + "? [Y/n] "
	}
	_, _ = s.Stderr.Write([]byte(term.Clean(question)))
	line, err := in.ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "" || answer == "y" || answer == "yes")
}
