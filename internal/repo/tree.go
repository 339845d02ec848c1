package repo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Tree is the folder with the files of one repository, or of a project
// without one.
type Tree struct {
	Top string // its root: of this worktree
	// Home is the folder that has the store, the same for all worktrees of a
	// repository: the root of its main worktree; of a submodule its own root; of a
	// bare repository, and of one apart from its files (--separate-git-dir), the
	// repository itself. Elsewhere it is the nearest parent that has a store, else
	// the folder itself.
	Home string
	Git  string // what git keeps for all worktrees; empty outside a repository
}

// TreeOf returns the tree of a folder: its worktree, outside git the nearest
// parent that has a store, else the folder itself.
func TreeOf(dir string) (Tree, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Tree{}, err
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // one folder, one name
	}
	nearest := ""
	for at := dir; ; at = filepath.Dir(at) {
		git, err := repositoryAt(at)
		if err != nil {
			return Tree{}, err
		}
		if git != "" {
			return Tree{Top: at, Home: mainRoot(git), Git: git}, nil
		}
		if nearest == "" && Exists(filepath.Join(at, StoreDir)) {
			nearest = at
		}
		if at == filepath.Dir(at) {
			break
		}
	}
	if nearest == "" {
		nearest = dir
	}
	return Tree{Top: nearest, Home: nearest}, nil
}

// Kept reports whether the tree is a repository or has a store, and is not just
// the folder that was asked for.
func (t Tree) Kept() bool {
	return t.Git != "" || Exists(filepath.Join(t.Top, StoreDir))
}

// OutsideError: a path does not belong to the repository.
type OutsideError struct {
	Path string // as it was given
	Why  string
}

func (e *OutsideError) Error() string { return fmt.Sprintf("path %q %s", e.Path, e.Why) }

// Name is the name of a file or folder in every worktree of the repository:
// relative to the root of its own worktree, with "/" between the parts, and
// "." for the root itself. A relative path counts from dir. A path outside this
// repository is an [*OutsideError].
func (t Tree) Name(dir, path string) (string, error) {
	real, err := Real(resolve(dir, path))
	if err != nil {
		return "", &OutsideError{Path: path, Why: "cannot be resolved: " + err.Error()}
	}
	if rel, ok := below(t.Top, real); ok && !t.nested(rel) {
		return rel, nil
	}
	own, err := TreeOf(Existing(real))
	if err != nil || own.Home != t.Home {
		return "", &OutsideError{Path: path, Why: "is outside the repository " + t.Top}
	}
	if rel, ok := below(own.Top, real); ok {
		return rel, nil
	}
	return "", &OutsideError{Path: path, Why: "is outside the repository " + t.Top}
}

// nested reports whether a folder above a file is another repository or
// worktree: a submodule, or a worktree inside this one.
func (t Tree) nested(rel string) bool {
	for i, c := range rel + "/" {
		if c == '/' && rel[:i] != "." && Exists(filepath.Join(t.Top, filepath.FromSlash(rel[:i]), ".git")) {
			return true
		}
	}
	return false
}

// Pattern is Name for the name of a path lock. It keeps the part after the first
// wildcard as it is. Without "./", "../" or "/" at its beginning the pattern
// counts from the root of the repository, wherever dir is.
func (t Tree) Pattern(dir, pattern string) (string, error) {
	base := t.Top
	for _, p := range []string{".", "..", "./", "../"} {
		if pattern == p || len(p) > 1 && p != ".." && strings.HasPrefix(pattern, p) {
			base = dir
		}
	}
	fixed, rest := fixedPart(pattern)
	if base == t.Top && strings.HasPrefix(pattern, "/") && len(fixed) == 0 || pattern == "" {
		return "", &OutsideError{Path: pattern, Why: "names no file of the repository"}
	}
	place := strings.Join(fixed, "/")
	if place == "" && len(fixed) > 0 {
		place = "/"
	}
	name, err := t.Name(base, place)
	if err != nil {
		return "", err
	}
	switch {
	case rest == nil && name == ".":
		return "**", nil
	case rest == nil:
		return name, nil
	case name == ".":
		return strings.Join(rest, "/"), nil
	}
	return name + "/" + strings.Join(rest, "/"), nil
}

// fixedPart cuts a pattern before the first part with a wildcard.
func fixedPart(pattern string) (fixed, rest []string) {
	for part := range strings.SplitSeq(strings.TrimSuffix(pattern, "/"), "/") {
		if rest != nil || strings.ContainsAny(part, "*?") {
			rest = append(rest, part)
		} else {
			fixed = append(fixed, part)
		}
	}
	return fixed, rest
}

// Whole is the name of a file or pattern outside a repository: its absolute
// path, with symbolic links resolved and "/" between the parts. A relative one
// counts from dir.
func Whole(dir, pattern string) (string, error) {
	if pattern == "" {
		return "", &OutsideError{Path: pattern, Why: "names no file"}
	}
	fixed, rest := fixedPart(filepath.ToSlash(pattern))
	abs := filepath.FromSlash(strings.Join(fixed, "/"))
	if len(fixed) == 1 && fixed[0] == "" { // it begins at the root
		abs = string(filepath.Separator)
	}
	real, err := Real(Absolute(dir, abs))
	if err != nil {
		return "", &OutsideError{Path: pattern, Why: "cannot be resolved: " + err.Error()}
	}
	name := strings.TrimSuffix(filepath.ToSlash(real), "/")
	if rest == nil && name == "" {
		rest = []string{"**"}
	}
	return strings.Join(append([]string{name}, rest...), "/"), nil
}

// below returns path relative to root, if it is not outside.
func below(root, path string) (string, bool) {
	rel, err := filepath.Rel(root, path)
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// Existing is the nearest folder at or above a path.
func Existing(path string) string {
	for !IsDir(path) && path != filepath.Dir(path) {
		path = filepath.Dir(path)
	}
	return path
}

// maxLinks bounds how many symbolic links one path may lead through.
const maxLinks = 40

// maxPath bounds a path in bytes.
const maxPath = 8 << 10

// Real resolves the symbolic links in a path, even if its target, or that of a
// link, does not exist yet: writing there would make it.
func Real(path string) (string, error) {
	path, err := filepath.Abs(path)
	switch {
	case err != nil:
		return "", err
	case len(path) > maxPath: // no system has such files
		return "", errors.New("too long")
	}
	return realPath(path, maxLinks)
}

func realPath(path string, links int) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) && !Absent(err) {
		return real, err
	}
	dir := filepath.Dir(path)
	if dir == path {
		return path, nil
	}
	if dir, err = realPath(dir, links); err != nil {
		return "", err
	}
	path = filepath.Join(dir, filepath.Base(path))
	target, err := os.Readlink(path)
	switch {
	case err != nil:
		return path, nil
	case links == 0:
		return "", errors.New("too many symbolic links")
	case !filepath.IsAbs(target):
		target = filepath.Join(dir, target)
	}
	return realPath(target, links-1)
}
