package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/repo"
)

// A Project is a worktree in which a harness is set up.
type Project struct {
	Tree  repo.Tree
	Setup Setup
}

// In is the same harness in another worktree.
func (p Project) In(top string) Project {
	p.Tree.Top = top
	p.Setup.Read = Reader(top, "")
	return p
}

// Reader reads files of a worktree for a [Setup], and those of a home with "~/" in
// front.
func Reader(top, home string) func(string) []byte {
	return func(name string) []byte {
		path := filepath.Join(top, name)
		if rest, ok := strings.CutPrefix(name, "~/"); ok {
			if home == "" {
				return nil
			}
			path = filepath.Join(home, rest)
		}
		text, _ := readFile(path)
		return text
	}
}

// readFile is the text of a file; nil if there is none.
func readFile(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	switch {
	case repo.Absent(err):
		return nil, nil
	case err == nil && text == nil:
		text = []byte{}
	}
	return text, err
}

// An Edit is a file with its text as it is and as it will be; nil: no file.
type Edit struct {
	Of      File
	Path    string // where the file really is, with links resolved
	Was, Is []byte
	Git     bool   // it is in git's own folder
	Left    string // why the file stays as it is: tracked, or kept for another harness
	mode    os.FileMode
}

// Same reports that there is nothing to do.
func (e Edit) Same() bool { return (e.Was == nil) == (e.Is == nil) && bytes.Equal(e.Was, e.Is) }

// Quiet reports that a person need not hear of the file.
func (e Edit) Quiet() bool { return (e.Of.Former || e.Git) && e.Same() && e.Left == "" }

// leave keeps a file that would change as it is.
func (e *Edit) leave(why string) {
	if !e.Same() {
		e.Is, e.Left = e.Was, why
	}
}

// Missing names the files that an edit would change.
func Missing(plan []Edit) []string {
	missing := []string{}
	for _, e := range plan {
		if !e.Same() {
			missing = append(missing, e.Path)
		}
	}
	return missing
}

// ErrChanged means that somebody has changed a file since it was read.
var ErrChanged = errors.New("has changed meanwhile")

// Apply writes the file, or removes it with the folders of the project that are then
// empty.
func (e Edit) Apply(top string) error {
	switch now, err := readFile(e.Path); {
	case err != nil:
		return err
	case (now == nil) != (e.Was == nil) || !bytes.Equal(now, e.Was):
		return fmt.Errorf("%s %w", e.Path, ErrChanged)
	case e.Is != nil:
		return host.WriteFile(e.Path, e.Is, e.mode)
	}
	if err := os.Remove(e.Path); err != nil && !repo.Absent(err) {
		return err
	}
	for dir := filepath.Dir(e.Path); len(dir) > len(top) && strings.HasPrefix(dir, top) && os.Remove(dir) == nil; {
		dir = filepath.Dir(dir)
	}
	return nil
}

// Plan sets the harness up, for all or for one person.
func (p Project) Plan(ctx context.Context, local bool) ([]Edit, error) {
	plan, err := p.change(p.Setup.form(local), File.Install)
	if err != nil {
		return nil, err
	}
	var hidden []string
	for i := range plan {
		switch e := &plan[i]; {
		case !local || e.Of.Former || e.Is == nil || p.Tree.Git == "":
		case !p.tracked(ctx, e.Of.Path) && (e.Was == nil || p.Ignored(ctx, e.Of.Path)):
			hidden = append(hidden, e.Of.Path)
		default:
			e.leave("tracked")
		}
	}
	return p.exclude(ctx, plan, hidden, !local)
}

// Check is the plan for the form that is set up; for all, if none is.
func (p Project) Check(ctx context.Context) ([]Edit, error) {
	own, err := p.Plan(ctx, true)
	if err == nil && len(Missing(own)) == 0 && !slices.ContainsFunc(own, func(e Edit) bool { return e.Left != "" }) {
		return own, nil
	}
	plan, err := p.Plan(ctx, false)
	return slices.DeleteFunc(plan, func(e Edit) bool { return e.Git }), err
}

// Removal takes the harness out, in all its forms or in that for one person. Guidance
// stays if another installed harness reads it.
func (p Project) Removal(ctx context.Context, local bool) ([]Edit, error) {
	files := p.Setup.form(true)
	if local {
		files = slices.DeleteFunc(files, func(f File) bool { return p.tracked(ctx, f.Path) })
	} else {
		for i := range files {
			files[i].Former = true
		}
		files = append(files, p.Setup.form(false)...)
	}
	plan, err := p.change(files, File.Remove)
	if err != nil {
		return nil, err
	}
	read := p.readByOthers()
	for i := range plan {
		if e := &plan[i]; e.Of.Guidance && slices.Contains(read, e.Path) {
			e.leave("kept")
		}
	}
	return p.exclude(ctx, plan, nil, false)
}

// exclude hides files from git, or shows them again. All worktrees have one list: a
// file that is hidden for another one, or for another form of the setup, stays hidden,
// unless it will be shared now.
func (p Project) exclude(ctx context.Context, plan []Edit, names []string, share bool) ([]Edit, error) {
	if p.Tree.Git == "" {
		return plan, nil
	}
	shares := func(name string) bool {
		return share && slices.ContainsFunc(plan, func(e Edit) bool { return e.Of.Path == name && !e.Of.Former })
	}
	file := filepath.Join(p.Tree.Git, "info", "exclude")
	for _, name := range p.hidden(ctx, file, share) {
		if !slices.Contains(names, name) && !shares(name) {
			names = append(names, name)
		}
	}
	change := File.Install
	if len(names) == 0 {
		change = File.Remove
	}
	e, err := changeAt(file, Exclude(p.Setup.Harness, names), change)
	e.Git = true
	return append(plan, e), err
}

// hidden names the files that git does not see because they set the harness up
// for one person, in other worktrees or also in this one.
func (p Project) hidden(ctx context.Context, exclude string, here bool) (names []string) {
	list, _ := os.ReadFile(exclude)
	tops := git.OtherWorktrees(ctx, p.Tree)
	if here {
		tops = append(tops, p.Tree.Top)
	}
	for _, top := range tops {
		other := p.In(top)
		for _, f := range other.Setup.form(true) {
			if bytes.Contains(list, []byte("\n/"+f.Path)) && !f.Former && f.In(other.Setup.Read(f.Path)) && !other.tracked(ctx, f.Path) {
				names = append(names, f.Path)
			}
		}
	}
	return names
}

// readByOthers are the files of guidance of the other harnesses that are set up.
func (p Project) readByOthers() (files []string) {
	for _, name := range Installable() {
		other := p
		other.Setup.Harness = name
		if name == p.Setup.Harness || !other.Present() {
			continue
		}
		for _, f := range append(other.Setup.form(true), other.Setup.form(false)...) {
			if path, err := p.real(f); err == nil && f.Guidance && !f.Former {
				files = append(files, path)
			}
		}
	}
	return files
}

// Present reports whether there is anything of the harness apart from guidance.
func (p Project) Present() bool {
	return slices.ContainsFunc(append(p.Setup.form(true), p.Setup.form(false)...), func(f File) bool {
		return !f.Guidance && f.In(p.Setup.Read(f.Path))
	})
}

// real is where a file really is: a link stays a link.
func (p Project) real(f File) (string, error) {
	return repo.Real(filepath.Join(p.Tree.Top, filepath.FromSlash(f.Path)))
}

// change plans one change to several files. It plans a file once, even if another one
// is a link to it, or another form of the setup has it too.
func (p Project) change(files []File, change func(File, []byte) ([]byte, error)) (plan []Edit, err error) {
	for _, f := range files {
		path, err := p.real(f)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(plan, func(e Edit) bool { return e.Path == path }) {
			continue
		}
		e, err := changeAt(path, f, change)
		if err != nil {
			return nil, err
		}
		plan = append(plan, e)
	}
	return plan, nil
}

func changeAt(path string, f File, change func(File, []byte) ([]byte, error)) (e Edit, err error) {
	e = Edit{Of: f, Path: path, mode: 0o644}
	if fi, err := os.Stat(path); err == nil {
		e.mode = fi.Mode().Perm()
	}
	if e.Was, err = readFile(path); err != nil {
		return e, err
	}
	if e.Is, err = change(f, e.Was); err != nil {
		err = &FileError{path, err.Error() + "; it is left as it is"}
	}
	return e, err
}

// A FileError says why a file cannot be changed.
type FileError struct{ Path, Why string }

func (e *FileError) Error() string { return e.Path + ": " + e.Why }

// Ignored reports whether git ignores a file of the worktree.
func (p Project) Ignored(ctx context.Context, name string) bool {
	_, err := git.Run(ctx, p.Tree.Top, "check-ignore", "-q", "--", name)
	return err == nil
}

func (p Project) tracked(ctx context.Context, name string) bool {
	_, err := git.Run(ctx, p.Tree.Top, "ls-files", "--error-unmatch", "--", name)
	return p.Tree.Git != "" && err == nil
}
