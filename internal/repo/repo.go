// Package repo finds out which git repository a path belongs to, and what the
// path is called in it, without running git: it reads what git wrote.
//
// # Guarantee
//
// All worktrees of a repository have one home, where its store is ([Tree.Home]),
// and a file has one name in all of them ([Tree.Name]): relative to the root of the
// worktree it is in, with symbolic links resolved.
//
// # Limit
//
// Clones count as separate repositories; they share names, because those are
// relative, and share a store only if one is configured.
//
// # Failure
//
// A failed search is an error, never a guess: a worktree with its own store
// would let two worktrees work on one task.
package repo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// StoreDir is the name of the folder that holds store and configuration.
const StoreDir = ".tasklock"

// SharedName is the file at the root of a repository that names the store for
// everybody who has the repository.
const SharedName = "tasklock.yaml"

// Error says what is wrong with a repository and where.
type Error struct {
	File string
	Line int // 0: it concerns the whole file
	Msg  string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
	}
	return e.File + ": " + e.Msg
}

// repositoryAt returns the repository whose files are at dir, the part that all
// its worktrees share; empty when there is none.
func repositoryAt(dir string) (common string, err error) {
	git := filepath.Join(dir, ".git")
	fi, err := os.Stat(git)
	switch {
	case err == nil && fi.IsDir() && isRepository(git):
		return git, nil
	case err == nil && fi.Mode().IsRegular():
		return linked(git)
	case err != nil && !Absent(err):
		return "", err
	case isRepository(dir):
		return dir, nil
	}
	return "", nil
}

// linked follows a .git file: "gitdir: " leads to the worktree's part of
// the repository, and "commondir" in there to what all worktrees share.
func linked(git string) (string, error) {
	line, err := firstLine(git)
	if err != nil {
		return "", err
	}
	target, ok := strings.CutPrefix(line, "gitdir:")
	target = strings.TrimSpace(target)
	if !ok || target == "" {
		return "", &Error{File: git, Line: 1, Msg: "is not a file that git wrote (no gitdir)"}
	}
	own := resolve(filepath.Dir(git), target)
	common := own
	shared, err := firstLine(filepath.Join(own, "commondir"))
	switch {
	case err == nil:
		common = resolve(own, shared)
	case !Absent(err):
		return "", err
	}
	if !isRepository(common) {
		return "", &Error{File: git, Line: 1, Msg: "its repository " + common +
			" is not here; make it visible (git worktree repair, or mount it), or name a store with --store"}
	}
	return common, nil
}

// mainRoot returns the root of the main worktree of a repository, or the
// repository itself if that cannot be known.
func mainRoot(common string) string {
	if tree := configuredWorktree(filepath.Join(common, "config")); tree != "" {
		if tree = resolve(common, tree); IsDir(tree) {
			return Canonical(tree)
		}
	}
	if filepath.Base(common) == ".git" {
		return Canonical(filepath.Dir(common))
	}
	return Canonical(common)
}

// configuredWorktree reads core.worktree, which git sets for submodules.
func configuredWorktree(config string) string {
	for _, s := range settings(config) {
		if strings.EqualFold(s.section, "core") && s.key == "worktree" {
			return unquote(s.value)
		}
	}
	return ""
}

// A setting is one line of git's configuration.
type setting struct{ section, key, value string }

// settings reads a file of git's configuration; none if it cannot be read.
func settings(config string) (all []setting) {
	f, err := os.Open(config)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	section := ""
	lines := bufio.NewScanner(io.LimitReader(f, 1<<20))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if head, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSpace(head[:max(0, strings.LastIndex(head, "]"))])
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		all = append(all, setting{section, strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)})
	}
	return all
}

// unquote undoes the quoting of git's configuration.
func unquote(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(s[1 : len(s)-1])
}

// isRepository recognises a git repository as git does: by its contents.
func isRepository(dir string) bool {
	return Exists(filepath.Join(dir, "HEAD")) && IsDir(filepath.Join(dir, "objects")) && IsDir(filepath.Join(dir, "refs"))
}

func resolve(base, path string) string { return Absolute(base, filepath.FromSlash(path)) }

// Canonical is the one name of a folder, without symbolic links.
func Canonical(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real
	}
	return dir
}

// firstLine reads the one line of a small file.
func firstLine(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimRight(line, "\r"), nil
}

// Exists reports whether there is anything at a path.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// IsDir reports whether there is a folder at a path.
func IsDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}

// Absent reports whether err means that a path does not exist.
func Absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// IsLink reports whether a symbolic link is there.
func IsLink(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode()&os.ModeSymlink != 0
}

// Within reports whether a path is a folder or lies in it.
func Within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// Absolute is where a path leads from a folder.
func Absolute(folder, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(folder, path)
}
