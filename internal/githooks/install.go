package githooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tasklock/tasklock/internal/git"
	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/repo"
)

// noteKey in the clone's git configuration says that the guard was installed. So an
// overwritten guard differs from one that nobody wanted.
const noteKey = "tasklock.guard"

// A Change is what [Install] or [Remove] did to one hook.
type Change struct {
	Hook string `json:"hook"`
	File string `json:"file"`
	Did  string `json:"did"` // installed, updated, unchanged, removed, absent, foreign
	Kept string `json:"kept,omitempty"`
	By   string `json:"manager,omitempty"` // the program that runs the file, if it is not git
	In   bool   `json:"in,omitempty"`      // the file holds other things too

	Orphans []string `json:"-"` // files of earlier guards, which nothing ran any more
}

// Changes are what [Install] or [Remove] did.
type Changes struct {
	Hooks   []Change
	Outside string // git's folder of hooks, if it lies outside the repository
}

// Install puts the guard into git's hooks. A dry run changes nothing.
func Install(ctx context.Context, dir string, dry bool) (Changes, error) {
	out, err := eachHook(ctx, dir, dry, place.install)
	if err == nil && !dry {
		_, _ = git.Run(ctx, dir, "config", "--local", noteKey, "true") // the hooks are there, noted or not
	}
	return out, err
}

// Remove takes the guard out of git's hooks and restores them.
func Remove(ctx context.Context, dir string, dry bool) (Changes, error) {
	out, err := eachHook(ctx, dir, dry, place.remove)
	if err == nil && !dry {
		_, _ = git.Run(ctx, dir, "config", "--local", "--unset", noteKey)
		dropRequirements(ctx, dir)
	}
	return out, err
}

// eachHook looks at all hooks before it changes one.
func eachHook(ctx context.Context, dir string, dry bool, change func(place, bool) (Change, error)) (out Changes, err error) {
	hooks, err := hooksFolder(ctx, dir)
	if err != nil {
		return out, err
	}
	tree, err := repo.TreeOf(dir)
	if err != nil {
		return out, err
	}
	inside := func(dir string) bool { return repo.Within(dir, repo.Canonical(hooks)) }
	if !inside(tree.Home) && !inside(tree.Top) && !inside(tree.Git) {
		out.Outside = hooks
	}
	for _, dry := range []bool{true, dry} {
		out.Hooks = nil
		for _, hook := range Names {
			c, err := change(placeOf(hooks, tree.Top, hook), dry)
			if err != nil {
				return out, err
			}
			out.Hooks = append(out.Hooks, c)
		}
	}
	return out, nil
}

func (p place) install(dry bool) (Change, error) {
	c := Change{Hook: p.Hook, File: p.File, Did: "installed", By: p.Manager}
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
			return c, &RefusedError{fmt.Sprintf("%s and %s are both there: one of them must go first", p.File, c.Kept)}
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

// guardedText is the text of the file with the guard in it. chain: the present hook
// cannot hold it, and ours must call it.
func (p place) guardedText(text []byte) (is []byte, chain bool, err error) {
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
			return nil, false, &RefusedError{fmt.Sprintf("%s: %v; %s", p.File, err, lefthookByHand(p.Hook, p.config()))}
		}
		return is, false, nil
	case ours(text) && bytes.Contains(text, []byte("before=")):
		return chainScript(p.Hook), false, nil
	case text == nil && !repo.Exists(p.File), ours(text) && withoutGuard(text) == nil:
		return ownScript(p.Hook), false, nil
	case guards(text), p.Manager == "husky":
		return withGuard(text, p.Hook), false, nil
	case executable(p.File) && inShell(text) && !repo.IsLink(p.File):
		return withGuard(text, p.Hook), false, nil
	}
	return chainScript(p.Hook), true, nil
}

// chain keeps the present hook next to ours, under a name by which it is called:
// some hooks go by their own name.
func (p place) chain(script []byte) error {
	kept := p.File + keptEnd
	if err := os.Rename(p.File, kept); err != nil {
		return err
	}
	err := host.WriteFile(p.File, script, 0o755)
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
func (c *Change) open(p place, dry bool) (old bool, text []byte, mode os.FileMode, err error) {
	if old, err = c.heal(p, dry); err == nil {
		text, mode, err = readHook(p.File)
	}
	return old, text, mode, err
}

// heal removes what an earlier version left: its own form of the hook, and what it
// had kept when somebody else replaced the hook. It reports whether there was a
// hook of ours.
func (c *Change) heal(p place, dry bool) (old bool, err error) {
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
		c.Orphans = append(c.Orphans, kept)
	}
	if text, readErr := os.ReadFile(p.Run + ".old"); readErr == nil && ours(text) { // lefthook put it away
		c.Orphans = append(c.Orphans, p.Run+".old")
	}
	for _, file := range c.Orphans {
		if !dry {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return old, err
}

// madeByManager reports whether the manager writes this hook again.
func madeByManager(script []byte) bool {
	return bytes.Contains(script, []byte("call_lefthook")) || bytes.Contains(script, []byte(`"$(dirname "$0")/h"`))
}

// restore replaces our hook with the former one, or removes it.
func (p place) restore() error {
	folder := filepath.Join(filepath.Dir(p.Run), keptFolder)
	_ = os.Remove(filepath.Join(folder, p.Hook))
	_ = os.Remove(folder) // if it is empty now
	if repo.Exists(p.Run + keptEnd) {
		return os.Rename(p.Run+keptEnd, p.Run) // over ours, at once
	}
	return os.Remove(p.Run)
}

func (p place) remove(dry bool) (Change, error) {
	c := Change{Hook: p.Hook, File: p.File, Did: "removed", By: p.Manager}
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

// readHook reads a file with its mode; nil if there is none, or a dangling link.
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

// writeThrough writes a file as a whole; a link to it stays a link.
func writeThrough(file string, text []byte, mode os.FileMode) error {
	real, err := repo.Real(file)
	if err != nil {
		return err
	}
	return host.WriteFile(real, text, mode)
}

// Folder makes a folder of hooks with only the guard, in the user's state folder,
// and returns it; empty: it cannot be made. base must exist.
func Folder(state, base string) string {
	if state == "" || !repo.IsDir(base) {
		return ""
	}
	dir := filepath.Join(state, "hooks")
	if os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	for _, hook := range Names {
		file := filepath.Join(dir, hook)
		script := "#!/bin/sh\nexec tasklock guard run " + hook + " \"$@\"\n"
		if is, err := os.ReadFile(file); err == nil && string(is) == script && executable(file) {
			continue
		}
		if err := host.WriteFile(file, []byte(script), 0o700); err != nil {
			return ""
		}
	}
	return dir
}
