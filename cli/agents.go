package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasklock/tasklock/agent"
	"github.com/tasklock/tasklock/repo"
	"github.com/tasklock/tasklock/store/driver"
)

type agentsOptions struct {
	check, remove, print, yes bool
}

func newAgentsCmd(a *App) *cobra.Command {
	o := &agentsOptions{}
	install := &cobra.Command{
		Use:   "install HARNESS",
		Short: "Set up a coding agent for this project: hooks, MCP server, AGENTS.md",
		Long: `Write into this project what a coding agent (claude, codex, gemini, cursor or pi)
needs to keep to the locks: its hooks, an entry for "tasklock mcp", and a marked
paragraph in AGENTS.md. What is there is kept, and a file that cannot be read is
left alone. On a terminal it asks before each file. Doing it again changes nothing;
--remove takes out exactly what was put in.`,
		Example: `  tasklock agents install claude
  tasklock agents install codex --print
  tasklock agents install gemini --remove`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("takes one harness: %s", strings.Join(agent.Installable(), ", "))
			}
			return nil
		},
		ValidArgs: agent.Installable(),
		RunE:      a.does(func(_ context.Context, args []string) error { return o.run(a, args[0]) }),
	}
	f := install.Flags()
	f.BoolVar(&o.check, "check", false, "only tell whether it is set up: exit 0, else 4")
	f.BoolVar(&o.remove, "remove", false, "take it out again")
	f.BoolVar(&o.print, "print", false, "only print what the files would hold")
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	install.MarkFlagsMutuallyExclusive("check", "remove", "print")
	return a.group("agents", "Set up coding agents", install)
}

// planned is a file with its text as it is and as it will be; nil: no file.
type planned struct {
	File    string `json:"file"`
	What    string `json:"what"`
	Did     string `json:"did"` // written, removed, unchanged, skipped
	was, is []byte
	mode    os.FileMode
}

func (o *agentsOptions) run(a *App, harness string) error {
	files, err := agent.Files(harness)
	if err != nil {
		return usagef("%v", err)
	}
	tree, err := repo.TreeOf(a.Dir)
	if err != nil {
		return err
	}
	plan, err := o.plan(tree.Top, files) // of all files, before one is written
	if err != nil {
		return err
	}
	switch {
	case o.print:
		return o.show(a, plan)
	case o.check:
		return o.tell(a, harness, plan)
	}
	ask := !o.yes && !a.DryRun && isTerminal(a.Stdin) && isTerminal(a.Stderr)
	if !ask && !o.yes && !a.DryRun {
		if err := staysIn(tree, plan); err != nil {
			return err
		}
	}
	in := bufio.NewReader(a.Stdin)
	for i := range plan {
		if err := plan[i].carryOut(a, ask, in); err != nil {
			return err
		}
	}
	return o.answer(a, plan)
}

// staysIn refuses to follow a link out of the project unasked: whoever made the
// repository has made its links.
func staysIn(tree repo.Tree, plan []planned) error {
	for _, p := range plan {
		if _, err := tree.Name(tree.Top, p.File); err != nil && !p.same() {
			return fmt.Errorf("%w: a link leads out of this project, to %s; nothing is changed; say --yes if that is meant", driver.ErrUnsafe, p.File)
		}
	}
	return nil
}

func (o *agentsOptions) plan(top string, files []agent.File) (plan []planned, err error) {
	for _, f := range files {
		path, err := repo.Real(filepath.Join(top, filepath.FromSlash(f.Path))) // a link stays a link
		if err != nil {
			return nil, err
		}
		p := planned{File: path, What: f.What, mode: 0o644}
		if fi, err := os.Stat(path); err == nil {
			p.mode = fi.Mode().Perm()
		}
		p.was, err = os.ReadFile(path)
		switch {
		case repo.Absent(err):
			p.was = nil
		case err != nil:
			return nil, err
		case p.was == nil:
			p.was = []byte{}
		}
		if o.remove {
			p.is, err = f.Remove(p.was)
		} else {
			p.is, err = f.Install(p.was)
		}
		if err != nil {
			return nil, &ConfigError{File: path, Msg: strings.TrimPrefix(err.Error(), f.Path+": ")}
		}
		plan = append(plan, p)
	}
	return plan, nil
}

// same reports that there is nothing to do.
func (p planned) same() bool { return (p.was == nil) == (p.is == nil) && bytes.Equal(p.was, p.is) }

func (p *planned) carryOut(a *App, ask bool, in *bufio.Reader) error {
	switch {
	case p.same():
		p.Did = "unchanged"
		return nil
	case ask && !agreed(a, p, in):
		p.Did = "skipped"
		return nil
	case p.is == nil:
		p.Did = "removed"
		if a.DryRun {
			return nil
		}
		_ = os.Remove(p.File)
		_ = os.Remove(filepath.Dir(p.File)) // if it is empty now
		return nil
	}
	p.Did = "written"
	if a.DryRun {
		return nil
	}
	if now, err := os.ReadFile(p.File); err == nil && !bytes.Equal(now, p.was) || err != nil && !repo.Absent(err) {
		return errors.Join(usagef("%s has changed meanwhile: run it again", p.File), err)
	}
	if err := os.MkdirAll(filepath.Dir(p.File), 0o755); err != nil {
		return err
	}
	return writeWhole(p.File, p.is, p.mode)
}

func agreed(a *App, p *planned, in *bufio.Reader) bool {
	question := "Write " + p.What + " into " + p.File + "? [Y/n] "
	if p.is == nil {
		question = "Remove " + p.File + "? [Y/n] "
	}
	_, _ = a.Stderr.Write([]byte(clean(question)))
	line, err := in.ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "" || answer == "y" || answer == "yes")
}

func (o *agentsOptions) answer(a *App, plan []planned) error {
	return a.answer(map[string]any{"files": plan}, func(p *printer) {
		for _, f := range plan {
			switch {
			case f.Did == "unchanged" && o.remove:
				p.line("%s has nothing of tasklock.", f.File)
			case f.Did == "unchanged":
				p.line("%s is set up already.", f.File)
			case f.Did == "skipped":
				p.line("%s is left as it is.", f.File)
			case f.Did == "removed":
				p.line("%s %s.", a.did("Removed", "Would remove"), f.File)
			case o.remove:
				p.line("%s %s out of %s.", a.did("Took", "Would take"), f.What, f.File)
			default:
				p.line("%s %s: %s.", a.did("Wrote", "Would write"), f.File, f.What)
			}
		}
	})
}

func (o *agentsOptions) show(a *App, plan []planned) error {
	texts := map[string]string{}
	for _, f := range plan {
		texts[f.File] = string(f.is)
	}
	return a.answer(map[string]any{"files": texts}, func(p *printer) {
		for _, f := range plan {
			p.line("%s:", styled{f.File, strong})
			for line := range strings.Lines(string(f.is)) {
				p.line("%s", strings.TrimRight(line, "\r\n"))
			}
			p.line("")
		}
	})
}

func (o *agentsOptions) tell(a *App, harness string, plan []planned) error {
	missing := []string{}
	for _, f := range plan {
		if !f.same() {
			missing = append(missing, f.File)
		}
	}
	err := a.answer(map[string]any{"installed": len(missing) == 0, "missing": missing}, func(p *printer) {
		for _, f := range missing {
			p.line("%s is not set up.", f)
		}
		if len(missing) == 0 {
			p.line("%s is set up.", harness)
		} else {
			p.line("Next: %s", a.commandLine("agents", "install", harness))
		}
	})
	if err == nil && len(missing) > 0 {
		return &exitWith{ExitNone}
	}
	return err
}
