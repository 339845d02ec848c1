package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tasklock/tasklock/internal/repo"
)

// guardNote is the key in git's configuration of the clone that says that the
// guard was installed: whoever overwrites it can be told from nobody having
// wanted it.
const guardNote = "tasklock.guard"

// guardChange is what install or remove did to one hook.
type guardChange struct {
	Hook string `json:"hook"`
	File string `json:"file"`
	Did  string `json:"did"` // installed, updated, unchanged, removed, absent, foreign
	Kept string `json:"kept,omitempty"`
	By   string `json:"manager,omitempty"` // the program that runs the file, if it is not git
	In   bool   `json:"in,omitempty"`      // the file holds other things too

	orphans []string
}

func (a *App) guardInstall(ctx context.Context) error {
	out, err := a.eachHook(ctx, a.installHook)
	if err != nil {
		return err
	}
	if !a.DryRun {
		_, _ = git(ctx, a.Dir, "config", "--local", guardNote, "true") // where it cannot be noted, the hooks still are there
	}
	return a.guardAnswer(ctx, out, true)
}

func (a *App) guardRemove(ctx context.Context) error {
	out, err := a.eachHook(ctx, a.removeHook)
	if err != nil {
		return err
	}
	if !a.DryRun {
		_, _ = git(ctx, a.Dir, "config", "--local", "--unset", guardNote)
	}
	return a.guardAnswer(ctx, out, false)
}

// eachHook looks at all hooks before it changes one.
func (a *App) eachHook(ctx context.Context, change func(guardPlace, bool) (guardChange, error)) (out []guardChange, err error) {
	hooks, err := hooksFolder(ctx, a.Dir)
	if err != nil {
		return nil, err
	}
	tree, err := repo.TreeOf(a.Dir)
	if err != nil {
		return nil, err
	}
	inside := func(dir string) bool { return below(dir, repo.Canonical(hooks)) }
	if !inside(tree.Home) && !inside(tree.Top) && !inside(tree.Git) {
		a.note("Note: core.hooksPath is %s, outside this repository: the guard runs wherever it is used.", hooks)
	}
	for _, dry := range []bool{true, a.DryRun} {
		out = nil
		for _, hook := range guarded {
			c, err := change(guardPlaceOf(hooks, tree.Top, hook), dry)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	return out, nil
}

func (a *App) installHook(p guardPlace, dry bool) (guardChange, error) {
	c := guardChange{Hook: p.Hook, File: p.File, Did: "installed", By: p.Manager}
	old, text, mode, err := c.open(p, dry)
	if err != nil {
		return c, err
	}
	is, chain, err := p.guardedText(text)
	switch {
	case err != nil:
		return c, err
	case bytes.Equal(is, text) && !old && !chain:
		c.Did = "unchanged"
		return c, nil
	case old || p.guards(text):
		c.Did = "updated"
	}
	c.In = !ours(is)
	if chain {
		c.Kept = p.File + keptEnd
		if repo.Exists(c.Kept) && !(dry && old) {
			return c, &deniedError{text: fmt.Sprintf("%s and %s are both there: one of them must go first", p.File, c.Kept)}
		}
	}
	if dry {
		return c, nil
	}
	if chain {
		return c, p.chain(is)
	}
	return c, writeThrough(p.File, is, mode)
}

// guardedText is the text of the file with the guard in it. chain: what is there
// cannot hold it, and must be called by ours.
func (p guardPlace) guardedText(text []byte) (is []byte, chain bool, err error) {
	switch {
	case p.Manager == "lefthook":
		end := filepath.Ext(p.File)
		is, err := lefthookInstall(text, p.Hook, p.config())
		switch {
		case (end == ".toml" || end == ".json") && lefthookGuards(text, p.Hook):
			return text, false, nil
		case end == ".toml" || end == ".json":
			err = errLefthook
		}
		if err != nil {
			return nil, false, &deniedError{text: fmt.Sprintf("%s: %v; %s", p.File, err, lefthookByHand(p.Hook, p.config()))}
		}
		return is, false, nil
	case ours(text) && bytes.Contains(text, []byte("before=")):
		return guardChain(p.Hook), false, nil
	case text == nil && !repo.Exists(p.File), ours(text) && withoutGuard(text) == nil:
		return guardScript(p.Hook), false, nil
	case guards(text), p.Manager == "husky":
		return withGuard(text, p.Hook), false, nil
	case executable(p.File) && inShell(text) && !isLink(p.File):
		return withGuard(text, p.Hook), false, nil
	}
	return guardChain(p.Hook), true, nil
}

// chain keeps the hook that is there beside ours, and makes a name for it by
// which it is called: some go by the name that they are called by.
func (p guardPlace) chain(script []byte) error {
	kept := p.File + keptEnd
	if err := os.Rename(p.File, kept); err != nil {
		return err
	}
	err := writeWhole(p.File, script, 0o755)
	if err != nil {
		_ = os.Rename(kept, p.File)
		return err
	}
	folder := filepath.Join(filepath.Dir(p.File), keptFolder)
	if os.MkdirAll(folder, 0o755) == nil {
		_ = os.Symlink(filepath.Join("..", filepath.Base(kept)), filepath.Join(folder, p.Hook)) // else it is called as it is
	}
	return nil
}

// open heals the hook, and returns the file that holds the guard.
func (c *guardChange) open(p guardPlace, dry bool) (old bool, text []byte, mode os.FileMode, err error) {
	if old, err = c.heal(p, dry); err == nil {
		text, mode, err = readHook(p.File)
	}
	return old, text, mode, err
}

// heal undoes what an earlier version left: its own form of the hook, and what
// it had kept when somebody else wrote the hook anew. It reports whether a hook
// of ours was there.
func (c *guardChange) heal(p guardPlace, dry bool) (old bool, err error) {
	kept := p.Run + keptEnd
	script, _, err := readHook(p.Run)
	if err != nil {
		return false, err
	}
	from, _ := findGuard(script)
	former, keptErr := os.ReadFile(kept)
	switch {
	case ours(script) && (from < 0 || p.File != p.Run): // of an earlier version, or from before the manager
		if old = true; !dry {
			err = p.restore()
		}
	case keptErr == nil && !ours(script) && (bytes.Equal(former, script) || madeByManager(former)):
		c.orphans = append(c.orphans, kept)
	}
	if text, readErr := os.ReadFile(p.Run + ".old"); readErr == nil && ours(text) { // lefthook put it away
		c.orphans = append(c.orphans, p.Run+".old")
	}
	for _, file := range c.orphans {
		if !dry {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return old, err
}

// madeByManager reports whether a hook is one that its manager writes again.
func madeByManager(script []byte) bool {
	return bytes.Contains(script, []byte("call_lefthook")) || bytes.Contains(script, []byte(`"$(dirname "$0")/h"`))
}

// restore puts the former hook back in the place of ours, or nothing.
func (p guardPlace) restore() error {
	folder := filepath.Join(filepath.Dir(p.Run), keptFolder)
	_ = os.Remove(filepath.Join(folder, p.Hook))
	_ = os.Remove(folder) // if it is empty now
	if repo.Exists(p.Run + keptEnd) {
		return os.Rename(p.Run+keptEnd, p.Run) // over ours, at once
	}
	return os.Remove(p.Run)
}

func (a *App) removeHook(p guardPlace, dry bool) (guardChange, error) {
	c := guardChange{Hook: p.Hook, File: p.File, Did: "removed", By: p.Manager}
	old, text, mode, err := c.open(p, dry)
	if err != nil {
		return c, err
	}
	var rest []byte
	if p.Manager == "lefthook" {
		rest = lefthookRemove(text, p.Hook)
	} else {
		rest = withoutGuard(text)
	}
	switch {
	case p.Manager == "" && ours(text):
		if repo.Exists(p.Run + keptEnd) {
			c.Kept = p.Run + keptEnd
		}
		if dry {
			return c, nil
		}
		return c, p.restore()
	case bytes.Equal(rest, text) && !old:
		c.Did = "foreign"
		if text == nil {
			c.Did = "absent"
		}
		return c, nil
	}
	c.In = rest != nil
	switch {
	case dry || bytes.Equal(rest, text):
		return c, nil
	case rest == nil:
		return c, os.Remove(p.File)
	}
	return c, writeThrough(p.File, rest, mode)
}

// readHook reads a file with its mode; nil if there is none, or a link that
// leads nowhere.
func readHook(file string) ([]byte, os.FileMode, error) {
	text, err := os.ReadFile(file)
	switch {
	case repo.Absent(err):
		return nil, 0o755, nil
	case err != nil:
		return nil, 0, err
	}
	fi, err := os.Stat(file)
	if err != nil {
		return nil, 0, err
	}
	if text == nil {
		text = []byte{}
	}
	return text, fi.Mode().Perm(), nil
}

func isLink(file string) bool {
	fi, err := os.Lstat(file)
	return err == nil && fi.Mode()&os.ModeSymlink != 0
}

// writeThrough writes a file as a whole; a link to it stays a link.
func writeThrough(file string, text []byte, mode os.FileMode) error {
	real, err := repo.Real(file)
	if err != nil {
		return err
	}
	return writeWhole(real, text, mode)
}

func (a *App) guardAnswer(ctx context.Context, changes []guardChange, install bool) error {
	var dead []guardState
	if install && !a.DryRun {
		all, _ := a.allGuards(ctx)
		dead = deadOf(all)
	}
	return a.answer(map[string]any{"hooks": changes, "notLive": dead}, func(p *printer) {
		for _, c := range changes {
			a.guardLine(p, c)
		}
		if names := a.toCommit(changes); install && len(names) > 0 {
			p.line("Commit what is new, so that other clones and worktrees have it: git add %s", strings.Join(shellWordsOf(names), " "))
		}
		p.deadGuards(dead)
	})
}

// toCommit names the changed files that git can track.
func (a *App) toCommit(changes []guardChange) (names []string) {
	tree, err := repo.TreeOf(a.Dir)
	for _, c := range changes {
		if err != nil || c.Did == "unchanged" || below(tree.Git, c.File) || !below(tree.Top, c.File) {
			continue
		}
		if name, err := filepath.Rel(tree.Top, c.File); err == nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (a *App) guardLine(p *printer, c guardChange) {
	switch c.Did {
	case "installed":
		if c.In {
			p.line("%s the guard into %s.", a.did("Put", "Would put"), c.File)
			break
		}
		p.line("%s %s.", a.did("Installed", "Would install"), c.File)
	case "updated":
		p.line("%s %s.", a.did("Updated", "Would update"), c.File)
	case "removed":
		if c.In {
			p.line("%s the guard out of %s.", a.did("Took", "Would take"), c.File)
			break
		}
		p.line("%s %s.", a.did("Removed", "Would remove"), c.File)
	case "unchanged":
		p.line("%s is there already.", c.File)
	case "absent":
		p.line("%s is not there.", c.File)
	case "foreign":
		p.line("%s is not ours, and stays.", c.File)
	}
	if c.Kept != "" && c.Did == "removed" {
		p.line("%s is %s again.", c.Kept, c.Hook)
	} else if c.Kept != "" {
		p.line("What was there runs after it, as %s.", c.Kept)
	}
	for _, file := range c.orphans {
		p.line("%s %s, which nothing ran any more.", a.did("Removed", "Would remove"), file)
	}
}

// writeWhole writes a file so that nobody ever sees half of it, and makes the
// folders around it.
func writeWhole(file string, data []byte, mode os.FileMode) error {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	var tmp *os.File
	if err == nil {
		tmp, err = os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return &deniedError{text: fmt.Sprintf("%s cannot be written: %v", file, err)}
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
