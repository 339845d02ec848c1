// Package place decides which store a folder uses if nobody names one.
//
// # Guarantee
//
// A repository has one store, a project (a folder with a .tasklock in it or
// above it) has one, and everything else on a machine has one for each user: two
// cron jobs in two folders meet. [Place.Why] gives the reason.
//
// # Limit
//
// Root is another user, with another store. So is a user without the
// XDG_STATE_HOME of its shell: if that can be seen, it is a problem.
//
// # Failure
//
// If there can be no store, that is [Place.Problem] or the error of
// [Place.Usable], never a store in another place. This package makes no home
// folder.
package place

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/tasklock/tasklock/internal/repo"
)

// Kind is what a store belongs to.
type Kind string

// The kinds of places. The zero Kind means that none was found.
const (
	Repository Kind = "repository" // a git repository, with all its worktrees
	Project    Kind = "project"    // a folder with a .tasklock in it or above it
	User       Kind = "user"       // everything else
)

// Database is the name of the store in its folder.
const Database = "tasklock.db"

// Branch is the branch of a store on a git remote, unless another is named.
const Branch = "tasklock"

// A Place is where the store of a folder is, or would be made.
type Place struct {
	Kind   Kind
	Folder string    // holds the database; empty if there is a Problem
	Tree   repo.Tree // of a repository or project
	base   string    // of a user: must exist before anything is made
	notes  string    // what is worth saying about the choice
	err    error
}

// Error says why a folder has no store, or which of two cannot be chosen.
// Naming one with --store always helps.
type Error struct {
	Msg    string
	Stores []string // that exist; the first can be named
}

func (e *Error) Error() string { return e.Msg }

// Find returns the place of dir. An error means that there is a repository that
// cannot be read; --store helps then too.
func Find(dir string, env func(string) string) (Place, error) {
	tree, err := repo.TreeOf(dir)
	switch {
	case err != nil:
		return Place{}, err
	case tree.Git != "":
		return Place{Kind: Repository, Folder: filepath.Join(tree.Home, repo.StoreDir), Tree: tree}, nil
	case tree.Kept():
		return Place{Kind: Project, Folder: filepath.Join(tree.Home, repo.StoreDir), Tree: tree}, nil
	}
	return user(env, runtime.GOOS), nil
}

// Here is the place of a project with its .tasklock in dir, which need not
// exist yet.
func Here(dir string) (Place, error) {
	tree, err := repo.TreeOf(dir)
	return Place{Kind: Project, Folder: filepath.Join(tree.Home, repo.StoreDir), Tree: tree}, err
}

// Problem says why no store can be used here without naming it.
func (p Place) Problem() error { return p.err }

// URL is the store here.
func (p Place) URL() string {
	if p.Folder == "" {
		return "sqlite:" // which nobody can open
	}
	return "sqlite:" + filepath.Join(p.Folder, Database)
}

// Why says why it is this store.
func (p Place) Why() string {
	switch p.Kind {
	case Repository:
		return "the store of this repository"
	case Project:
		return "the store of the project " + p.Tree.Home + ", which has a " + repo.StoreDir
	case User:
		return "your user's store: no repository or project here" + p.notes
	}
	return "no store"
}

// Config is the file with the settings of a repository or project; empty for a
// user, whose settings are elsewhere.
func (p Place) Config() string {
	if p.Kind != Repository && p.Kind != Project {
		return ""
	}
	return filepath.Join(p.Folder, "config.yaml")
}

// Has reports whether a folder holds a store, or the rest of one. A store that
// we may not see counts.
func Has(folder string) bool {
	for _, name := range []string{Database, Database + "-wal"} {
		if _, err := os.Lstat(filepath.Join(folder, name)); err == nil || !repo.Absent(err) {
			return true
		}
	}
	return false
}

// Shared is the remote of this repository that has the branch of a store, as far
// as git knows: others may keep their locks there. With quick it runs no program.
func (p Place) Shared(quick bool) string {
	if p.Kind != Repository {
		return ""
	}
	return p.Tree.RemoteWith(Branch, quick)
}

// SharedError: a store of our own would not see the locks that others take on
// their shared branch.
type SharedError struct{ Remote string }

func (e *SharedError) Error() string {
	return fmt.Sprintf("the remote %s has a branch %s, where others may keep their locks, and this repository has no store of its own; "+
		"use the branch, or insist on a store that only this clone sees: tasklock init --local", e.Remote, Branch)
}

// DatabaseOf is the path of the database in the URL of a store, else empty.
func DatabaseOf(url string) string {
	scheme, path, ok := strings.Cut(url, ":")
	switch {
	case ok && scheme == "sqlite":
		return strings.TrimPrefix(path, "//")
	case !ok || len(scheme) == 1: // a plain path, perhaps with a drive letter
		return url
	}
	return ""
}

// FolderOf is the folder of a store on this machine, else empty.
func FolderOf(url string) string {
	if folder, files := strings.CutPrefix(url, "file:"); files {
		return strings.TrimPrefix(folder, "//")
	}
	if path := DatabaseOf(url); path != "" {
		return filepath.Dir(path)
	}
	return ""
}
