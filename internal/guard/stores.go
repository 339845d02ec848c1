package guard

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
)

// Forbidden returns why the tool is denied to everybody: it would change the records
// of tasklock itself. Removing a store frees every lock in it, and its tokens begin
// again. With Strict it also denies what a person should do.
func (w *Writes) Forbidden() *Denial {
	stores := w.storeFiles()
	for _, t := range w.targets {
		switch {
		case t.isSettings() && w.Strict:
			return &Denial{Why: Settings, What: t.Path}
		case t.isSettings():
		case t.inStoreFolder() || slices.ContainsFunc(stores, t.hits):
			return &Denial{Why: Records, What: t.Path}
		}
	}
	if command := w.forced(); command != "" && w.Strict {
		return &Denial{Why: Forced, What: command}
	}
	return nil
}

// storeFiles are the files and folders of the stores that the targets could hit:
// that of the session, that of the user, and those of the written repositories.
func (w *Writes) storeFiles() (files []string) {
	add := func(path string) {
		if real, err := repo.Real(path); path != "" && err == nil && repo.Exists(real) && !slices.Contains(files, real) {
			files = append(files, real)
		}
	}
	dirs := []string{w.Dir}
	for tree := range w.trees {
		dirs = append(dirs, w.storeDir(tree))
	}
	for _, dir := range dirs {
		if s, err := w.Store(dir); err == nil {
			for _, f := range s.files(dir) {
				add(f)
			}
		}
	}
	add(w.State)
	for _, t := range w.targets { // a folder of repositories, one or two levels down
		if !t.Gone || t.rest != nil || !repo.IsDir(t.path) {
			continue
		}
		for _, level := range []string{".", "*", "*/*"} {
			found, _ := filepath.Glob(filepath.Join(globQuote(t.path), level, repo.StoreDir))
			for _, f := range found[:min(len(found), 100)] {
				if place.Has(f) {
					add(f)
				}
			}
		}
	}
	return files
}

// files are those of a store on this machine, whether they are there or not.
func (s Store) files(dir string) []string {
	out := []string{s.Folder}
	if remote, ok := strings.CutPrefix(s.URL, "git:"); ok {
		return append(out, gitFolder(repo.Absolute(dir, strings.TrimPrefix(remote, "file://"))))
	}
	if path := place.DatabaseOf(s.URL); path != "" {
		path = repo.Absolute(dir, path)
		return append(out, path, path+"-wal", path+"-shm", path+"-journal", path+".d")
	}
	if folder := place.FolderOf(s.URL); folder != "" {
		return append(out, repo.Absolute(dir, folder))
	}
	return out
}

// gitFolder is what a store in a repository on this machine cannot do without: of one
// that people work in the objects, which nobody but git writes. A path may have a branch.
func gitFolder(path string) string {
	path, _, _ = strings.Cut(path, "#")
	if objects := filepath.Join(path, ".git", "objects"); repo.IsDir(objects) {
		return objects
	}
	if repo.IsDir(filepath.Join(path, "objects")) {
		return path
	}
	return ""
}

// globQuote quotes a path for a pattern.
func globQuote(path string) string {
	if filepath.Separator == '\\' {
		return path // no quoting there
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// isSettings reports whether the target is a file with settings: they are content
// like any other.
func (t target) isSettings() bool {
	dir, name := filepath.Split(t.path)
	return t.rest == nil && (name == "config.yaml" && filepath.Base(dir) == repo.StoreDir || name == repo.SharedName && repo.Exists(filepath.Join(dir, ".git")))
}

// inStoreFolder reports whether the target lies in a folder of tasklock, in
// whichever repository. Where there is none yet, making it is harmless, and so is a
// copy of a repository with all that is in it.
func (t target) inStoreFolder() bool {
	for dir := t.path; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) == repo.StoreDir {
			return repo.Exists(dir) || (dir != t.path || t.rest != nil) && repo.Exists(filepath.Join(filepath.Dir(dir), ".git"))
		}
	}
	return false
}

// hits reports whether writing the target changes or removes what is at a path.
func (t target) hits(path string) bool {
	if t.rest == nil {
		return repo.Within(path, t.path) || t.Gone && repo.Within(t.path, path)
	}
	rel, err := filepath.Rel(t.path, path)
	if err != nil || !filepath.IsLocal(rel) || rel == "." || t.Tree && !t.Gone { // a formatter knows its files
		return repo.Within(path, t.path)
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for n := 1; n <= len(parts); n++ { // a folder above it is enough if that goes
		if (n == len(parts) || t.Gone) && t.matches(t.rest, parts[:n]) {
			return true
		}
	}
	if !slices.Contains(t.rest, "**") {
		return len(t.rest) > len(parts) && t.matches(t.rest[:len(parts)], parts)
	}
	return t.matchesIn(path)
}

// maxLook bounds how many files of a store are compared with a pattern.
const maxLook = 500

// matchesIn reports whether the pattern means one of the files in a folder.
func (t target) matchesIn(folder string) bool {
	found, seen := false, 0
	_ = filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		rel, no := filepath.Rel(t.path, path)
		if seen++; err != nil || no != nil || seen > maxLook {
			return fs.SkipAll
		}
		if found = t.matches(t.rest, strings.Split(filepath.ToSlash(rel), "/")); found {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// matches compares part by part, as a shell does: a wildcard at the beginning of a
// name matches no dot. The results of find have no such rule.
func (t target) matches(pattern, parts []string) bool {
	if len(pattern) == 0 {
		return len(parts) == 0
	}
	if pattern[0] == "**" {
		for n := range len(parts) + 1 {
			if t.matches(pattern[1:], parts[n:]) {
				return true
			}
		}
		return false
	}
	if len(parts) == 0 || !t.There && strings.HasPrefix(parts[0], ".") && !strings.HasPrefix(pattern[0], ".") {
		return false
	}
	ok, err := filepath.Match(pattern[0], parts[0])
	return ok && err == nil && t.matches(pattern[1:], parts[1:])
}
