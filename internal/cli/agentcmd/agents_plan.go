package agentcmd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/internal/cli/term"
	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/harness"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/store/driver"
)

// planned is a file with its text as it is and as it will be; nil: no file.
type planned struct {
	File    string `json:"file"`
	What    string `json:"what"`
	Did     string `json:"did"` // written, removed, unchanged, skipped, tracked, kept
	ByHand  string `json:"byHand,omitempty"`
	was, is []byte
	mode    os.FileMode
	of      harness.File
	git     bool   // in git's own folder
	left    string // what is said of a file that is left as it is
}

// shown are the files that a person hears of.
func shown(plan []planned) []planned {
	return slices.DeleteFunc(slices.Clone(plan), func(p planned) bool { return (p.of.Former || p.git) && p.same() && p.left == "" })
}

// same reports that there is nothing to do.
func (p planned) same() bool { return (p.was == nil) == (p.is == nil) && bytes.Equal(p.was, p.is) }

// missingOf names the files that are not set up.
func missingOf(plan []planned) []string {
	missing := []string{}
	for _, f := range plan {
		if !f.same() {
			missing = append(missing, f.File)
		}
	}
	return missing
}

// in is the same harness in another worktree.
func (in *installation) in(top string) *installation {
	other := *in
	other.tree.Top = top
	other.setup.Read = reader(top, "")
	return &other
}

// of is another harness in the same worktree.
func (in *installation) of(name string) *installation {
	other := *in
	other.setup.Harness = name
	return &other
}

// plan sets the harness up, for all or for one person.
func (in *installation) plan(local bool) ([]planned, error) {
	in.setup.Local = local
	files, err := in.setup.Files()
	if err != nil {
		return nil, err
	}
	plan, err := in.change(files, harness.File.Install)
	if err != nil {
		return nil, err
	}
	var hidden []string
	for i := range plan {
		switch p := &plan[i]; {
		case !local || p.of.Former || p.is == nil || in.tree.Git == "":
		case !in.tracked(p.of.Path) && (p.was == nil || in.ignored(p.of.Path)):
			hidden = append(hidden, p.of.Path)
		case !p.same():
			p.is, p.left = p.was, "tracked"
		}
	}
	return in.exclude(plan, hidden, !local)
}

// exclude hides files from git, or shows them again. All worktrees have one list: a
// file that is hidden for another one, or for another form of the setup, stays hidden,
// unless it will be shared now.
func (in *installation) exclude(plan []planned, names []string, share bool) ([]planned, error) {
	if in.tree.Git == "" {
		return plan, nil
	}
	shares := func(name string) bool {
		return share && slices.ContainsFunc(plan, func(p planned) bool { return p.of.Path == name && !p.of.Former })
	}
	file := filepath.Join(in.tree.Git, "info", "exclude")
	for _, name := range in.hidden(file, share) {
		if !slices.Contains(names, name) && !shares(name) {
			names = append(names, name)
		}
	}
	change := harness.File.Install
	if len(names) == 0 {
		change = harness.File.Remove
	}
	more, err := in.changeAt(file, harness.Exclude(in.setup.Harness, names), change)
	more.git = true
	return append(plan, more), err
}

// removal takes the harness out, in all its forms or in that for one person. Guidance
// stays if another installed harness reads it.
func (in *installation) removal(local bool) ([]planned, error) {
	var files []harness.File
	for _, form := range []bool{true, false} {
		in.setup.Local = form
		more, err := in.setup.Files()
		if err != nil {
			return nil, err
		}
		for _, f := range more {
			known := slices.ContainsFunc(files, func(g harness.File) bool { return g.Path == f.Path })
			if f.Former = f.Former || form != local; !known && (form || !local) && (!local || !in.tracked(f.Path)) {
				files = append(files, f)
			}
		}
	}
	plan, err := in.change(files, harness.File.Remove)
	if err != nil {
		return nil, err
	}
	read := in.readByOthers()
	for i := range plan {
		if p := &plan[i]; p.of.Guidance && !p.same() && slices.Contains(read, p.File) {
			p.is, p.left = p.was, "kept"
		}
	}
	return in.exclude(plan, nil, false)
}

// hidden names the files that git does not see because they set the harness up
// for one person, in other worktrees or also in this one.
func (in *installation) hidden(exclude string, here bool) (names []string) {
	list, err := os.ReadFile(exclude)
	tops := git.OtherWorktrees(in.ctx, in.tree)
	if here {
		tops = append(tops, in.tree.Top)
	}
	for _, top := range tops {
		other := in.in(top)
		other.setup.Local = true
		files, _ := other.setup.Files()
		for _, f := range files {
			if err == nil && bytes.Contains(list, []byte("\n/"+f.Path)) && !f.Former && f.In(other.setup.Read(f.Path)) && !other.tracked(f.Path) {
				names = append(names, f.Path)
			}
		}
	}
	return names
}

// readByOthers are the files of guidance of the other harnesses that are set up.
func (in *installation) readByOthers() (files []string) {
	for _, name := range harness.Installable() {
		other := in.of(name)
		if name == in.setup.Harness || !other.present() {
			continue
		}
		for _, local := range []bool{true, false} {
			other.setup.Local = local
			theirs, _ := other.setup.Files()
			for _, f := range theirs {
				if path, err := repo.Real(filepath.Join(in.tree.Top, filepath.FromSlash(f.Path))); err == nil && f.Guidance && !f.Former {
					files = append(files, path)
				}
			}
		}
	}
	return files
}

// present reports whether there is anything of the harness apart from guidance.
func (in *installation) present() bool {
	for _, local := range []bool{true, false} {
		in.setup.Local = local
		files, _ := in.setup.Files()
		for _, f := range files {
			if !f.Guidance && f.In(in.setup.Read(f.Path)) {
				return true
			}
		}
	}
	return false
}

// missing names the files that the harness lacks.
func (in *installation) missing(local bool) ([]string, error) {
	plan, err := in.plan(local)
	return missingOf(plan), err
}

// whicheverIsThere is the plan for the form that is set up; for all, if none is.
func (in *installation) whicheverIsThere() ([]planned, error) {
	if own, err := in.plan(true); err == nil && len(missingOf(own)) == 0 && !slices.ContainsFunc(own, func(p planned) bool { return p.left != "" }) {
		return own, nil
	}
	plan, err := in.plan(false)
	return slices.DeleteFunc(plan, func(p planned) bool { return p.git }), err
}

func (in *installation) change(files []harness.File, change func(harness.File, []byte) ([]byte, error)) (plan []planned, err error) {
	for _, f := range files {
		path, err := repo.Real(filepath.Join(in.tree.Top, filepath.FromSlash(f.Path))) // a link stays a link
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(plan, func(p planned) bool { return p.File == path }) {
			continue // a link to another one
		}
		p, err := in.changeAt(path, f, change)
		if err != nil {
			return nil, err
		}
		plan = append(plan, p)
	}
	return plan, nil
}

func (in *installation) changeAt(path string, f harness.File, change func(harness.File, []byte) ([]byte, error)) (planned, error) {
	p := planned{File: path, What: f.What, ByHand: f.ByHand, mode: 0o644, of: f}
	if fi, err := os.Stat(path); err == nil {
		p.mode = fi.Mode().Perm()
	}
	var err error
	p.was, err = os.ReadFile(path)
	switch {
	case repo.Absent(err):
		p.was = nil
	case err != nil:
		return p, err
	case p.was == nil:
		p.was = []byte{}
	}
	if p.is, err = change(f, p.was); err != nil {
		return p, &config.Error{File: path, Msg: strings.TrimPrefix(err.Error(), f.Path+": ")}
	}
	return p, nil
}

// staysIn refuses to follow a link out of the project without consent: the author of
// the repository made its links.
func staysIn(tree repo.Tree, plan []planned) error {
	for _, p := range plan {
		if _, err := tree.Name(tree.Top, p.File); err != nil && !p.same() && !p.git {
			return fmt.Errorf("%w: a link leads out of this project, to %s; nothing changed; use --yes to follow it", driver.ErrUnsafe, p.File)
		}
	}
	return nil
}

func (p *planned) carryOut(s *session.Session, top string, ask bool, in *bufio.Reader) error {
	switch {
	case p.left != "":
		p.Did = p.left
		return nil
	case p.same():
		p.Did = "unchanged"
		return nil
	case ask && !agreed(s, p, in):
		p.Did = "skipped"
		return nil
	}
	p.Did = "written"
	if p.is == nil {
		p.Did = "removed"
	}
	if s.DryRun {
		return nil
	}
	if now, err := os.ReadFile(p.File); err == nil && (p.was == nil || !bytes.Equal(now, p.was)) || err != nil && (p.was != nil || !repo.Absent(err)) {
		return errors.Join(session.Usagef("%s has changed meanwhile: run it again", p.File), err)
	}
	if p.is == nil {
		return removeWithFolders(p.File, top)
	}
	return host.WriteFile(p.File, p.is, p.mode)
}

// removeWithFolders removes a file, and the folders above it that are then empty, below
// top.
func removeWithFolders(file, top string) error {
	if err := os.Remove(file); err != nil && !repo.Absent(err) {
		return err
	}
	for dir := filepath.Dir(file); len(dir) > len(top) && strings.HasPrefix(dir, top) && os.Remove(dir) == nil; {
		dir = filepath.Dir(dir)
	}
	return nil
}

func agreed(s *session.Session, p *planned, in *bufio.Reader) bool {
	question := "Write " + p.What + " into " + p.File + "? [Y/n] "
	if p.is == nil {
		question = "Remove " + p.File + "? [Y/n] "
	}
	_, _ = s.Stderr.Write([]byte(term.Clean(question)))
	line, err := in.ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return err == nil && (answer == "" || answer == "y" || answer == "yes")
}
