package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/repo"
)

// user is the one store of a user of this machine.
func user(env func(string) string, system string) Place {
	p := Place{Kind: User}
	usual, home := usualState(env, system)
	named := env("XDG_STATE_HOME")
	switch {
	case system == "windows" || named == "":
		named = ""
	case !filepath.IsAbs(named):
		p.notes = fmt.Sprintf(" (XDG_STATE_HOME is %q, which is not an absolute path, so it does not count)", named)
		named = ""
	}
	switch {
	case named != "":
		p.Folder, p.base = filepath.Join(named, "tasklock"), filepath.Dir(filepath.Clean(named))
		if home != "" && repo.Within(home, named) {
			p.base = home
		}
		if usual != "" {
			p.err = apart(p.Folder, filepath.Join(usual, "tasklock"))
		}
	case usual != "":
		p.Folder, p.base = filepath.Join(usual, "tasklock"), home
	default:
		p.err = &Error{Msg: "there is no repository or project here, and your user has no place for a store: " + homeless(system) + "; name a store with --store"}
	}
	return p
}

// State is the folder where tasklock keeps its memory for the user, and the base
// folder that must exist for it; empty if there is no place for it.
func State(env func(string) string) (folder, base string) {
	p := user(env, runtime.GOOS)
	return p.Folder, p.base
}

// usualState is the folder for a user's program state on a system, and the base
// folder that must exist for it; empty if that is unknown.
func usualState(env func(string) string, system string) (state, base string) {
	if system == "windows" {
		dir := env("LocalAppData")
		if !filepath.IsAbs(dir) {
			return "", ""
		}
		return dir, dir
	}
	home := env("HOME")
	if !filepath.IsAbs(home) {
		return "", ""
	}
	if system == "darwin" {
		return filepath.Join(home, "Library", "Application Support"), home
	}
	return filepath.Join(home, ".local", "state"), home
}

func homeless(system string) string {
	if system == "windows" {
		return "LocalAppData is not set to a whole path"
	}
	return "HOME is not set to a whole path"
}

// apart is the error if a store is in the usual folder and XDG_STATE_HOME names
// another one: a program without the variable, cron for one, would not see the
// locks that are taken there. So no store is made there either.
func apart(named, usual string) error {
	if !Has(usual) || sameFolder(named, usual) {
		return nil
	}
	const others = "which every command without that variable uses, cron for one"
	of := func(folder string) string { return "sqlite:" + filepath.Join(folder, Database) }
	if Has(named) {
		return &Error{
			Msg:    fmt.Sprintf("your user has two stores: %s by XDG_STATE_HOME, and %s, %s; name one with --store, or move one away", named, usual, others),
			Stores: []string{of(named), of(usual)},
		}
	}
	return &Error{
		Msg: fmt.Sprintf("XDG_STATE_HOME says that your user's store is %s, where there is none, and there is one in %s, %s; name it with --store, or move it",
			named, usual, others),
		Stores: []string{of(usual)},
	}
}

func sameFolder(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || errX == nil && errY == nil && os.SameFile(x, y)
}

// Usable says why no store can be made in a user's place. The driver judges
// stores of repositories and projects.
func (p Place) Usable(unsafeFS bool) error {
	if p.Kind != User || p.err != nil || Has(p.Folder) {
		return p.err
	}
	cannot := func(format string, args ...any) error {
		return &Error{Msg: "there is no repository or project here, and your user's store cannot be made: " + fmt.Sprintf(format, args...) + "; name a store with --store"}
	}
	if !repo.IsDir(p.base) {
		return cannot("there is no folder %s", p.base)
	}
	above := repo.Existing(p.Folder)
	for dir := filepath.Dir(p.Folder); dir != above && len(dir) > len(above); dir = filepath.Dir(dir) {
		if repo.Exists(dir) { // a file, or a link to nothing
			return cannot("%s is not a folder", dir)
		}
	}
	if err := host.Writable(above); err != nil {
		return cannot("%s cannot be written (%v)", above, err)
	}
	name, safe, err := host.FileSystem(above)
	switch {
	case err != nil:
		return cannot("the file system of %s is unknown (%v)", above, err)
	case !safe && !unsafeFS:
		return cannot("%s is on %s, where locks between processes cannot be trusted", above, name)
	}
	return nil
}

// Prepare makes the folders above a user's store, but never a home, and syncs
// them. Other places have theirs.
func (p Place) Prepare() error {
	if p.err != nil || p.Kind != User {
		return p.err
	}
	return p.prepare(filepath.Dir(p.Folder))
}

func (p Place) prepare(dir string) error {
	if repo.IsDir(dir) {
		return nil
	}
	if dir == filepath.Clean(p.base) || !repo.Within(p.base, dir) {
		return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrNotExist}
	}
	if err := p.prepare(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return host.SyncDir(filepath.Dir(dir))
}
