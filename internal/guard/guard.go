// Package guard decides whether a tool may write its targets.
//
// # Guarantee
//
// Nobody may write what another owner's path lock covers, the files of tasklock's own
// stores, or the worktree in which another session works. What counts is the file
// that is written, with links resolved, not the folder of the tool: each file is
// judged by the locks in the store of its own repository.
//
// # Limit
//
// The targets are what the caller could find (package shellwrites). Guard does not see
// a file that is written without being named; git's hooks stand behind it.
//
// # Failure
//
// A store that does not answer is an error, but a denial by another store still
// counts.
package guard

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/internal/shellwrites"
	"github.com/tasklock/tasklock/store"
)

// Request is what a tool is about to do.
type Request struct {
	Dir     string // where it runs
	Owners  []string
	Targets []shellwrites.Target
	Calls   [][]string // the arguments of each tasklock command that it runs
	Strict  bool       // deny changed settings and locks taken by force
	State   string     // the folder of the user's state; empty: there is none

	// Store says where the store of a folder is, and Open opens it.
	Store func(dir string) (Store, error)
	Open  func(ctx context.Context, dir string) (*store.Store, error)
}

// A Store is where the store of a folder is.
type Store struct {
	URL    string
	Folder string // of the repository or project
	Users  bool   // it is the user's, which serves every folder that has none
}

// A Denial says why something must not be written.
type Denial struct {
	Why  Why
	What string     // what would be written, or the command
	Lock lease.Info // of Locked and Occupied
}

// Why is a reason for a denial.
type Why int

// The reasons for a denial.
const (
	Locked   Why = iota // another owner's path lock covers it
	Occupied            // it is in the worktree in which another session works
	Records             // it is a file of a store
	Settings            // it says how locks are checked, and Strict is set
	Forced              // the command takes a lock from its holder, and Strict is set
)

// Writes are the files that a tool is about to write, where they really are.
type Writes struct {
	Request
	seen    seen
	targets []target
	trees   map[repo.Tree][]named
	outside string // a folder in no repository and no project, if one is written in
}

// Resolve finds the real files of a request's targets. It leaves out impossible names,
// and files that belong to no store.
func Resolve(r Request) *Writes {
	w := &Writes{Request: r, seen: seen{map[string]string{}, map[string]repo.Tree{}}}
	for _, t := range r.Targets {
		if resolved, err := w.resolve(t); err == nil {
			w.targets = append(w.targets, resolved)
		}
	}
	w.sort()
	return w
}

// None reports whether no store could have locks for what is written.
func (w *Writes) None() bool { return len(w.trees) == 0 }

// Locked returns the first reason that needs a store: the worktree of another session,
// then a path lock of another owner.
func (w *Writes) Locked(ctx context.Context) (*Denial, error) {
	if d, err := w.occupied(ctx); err == nil && d != nil { // an error shows again below
		return d, nil
	}
	var faults []error // one repository that cannot be asked does not excuse the others
	for tree, targets := range w.trees {
		d, err := w.lockedIn(ctx, tree, targets)
		if d != nil {
			return d, nil
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

// lockedIn is the first target in a repository that another owner has locked.
func (w *Writes) lockedIn(ctx context.Context, tree repo.Tree, targets []named) (*Denial, error) {
	st, err := w.Open(ctx, w.storeDir(tree))
	if err != nil {
		return nil, err
	}
	var globs []lease.Glob
	for _, t := range targets {
		globs = append(globs, t.glob)
	}
	hits, err := touching(ctx, st, w.Owners, globs)
	for _, h := range hits {
		if t := targets[h.place]; !t.There || fileIn(ctx, tree, h.name, t.glob, h.glob) {
			return &Denial{Why: Locked, What: t.name, Lock: h.lock}, nil
		}
	}
	return nil, err
}

// A hit is a place that a lock of another owner covers.
type hit struct {
	place int // which of the places
	lock  lease.Info
	name  string // of the files that are locked, and the same as a pattern
	glob  lease.Glob
}

// touching compares places with the path locks of others, lock by lock. It returns
// hits beside an error: a lock that cannot be read does not excuse the others.
func touching(ctx context.Context, st *store.Store, owners []string, places []lease.Glob) (hits []hit, err error) {
	found, err := lease.Touching(ctx, st, lease.TouchingRequest{Owners: owners, Places: places})
	for _, l := range found {
		_, name := lease.KindOf(l.Key)
		glob, bad := lease.ParseGlob(name)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		for i, p := range places {
			if p.Overlaps(glob) {
				hits = append(hits, hit{i, l, name, glob})
			}
		}
	}
	return hits, err
}

// A TouchedFile is a file that somebody else has locked.
type TouchedFile struct {
	File      string       `json:"file"`
	Key       string       `json:"key"`
	Owner     string       `json:"owner"`
	ExpiresAt lease.Expiry `json:"expiresAt"`
	Reason    string       `json:"reason,omitempty"` // in the holder's words
}

// Touched compares files, by their names in the repository, with the locks of
// others.
func Touched(ctx context.Context, st *store.Store, owners, files []string) ([]TouchedFile, error) {
	globs := make([]lease.Glob, len(files))
	for i, f := range files {
		globs[i] = lease.File(f)
	}
	hits, err := touching(ctx, st, owners, globs)
	out := []TouchedFile{}
	for _, h := range hits {
		out = append(out, TouchedFile{files[h.place], h.lock.Key, h.lock.Owner, h.lock.ExpiresAt, h.lock.Reason})
	}
	return out, err
}

// occupied is the first target that would change the worktree in which another
// session works.
func (w *Writes) occupied(ctx context.Context) (*Denial, error) {
	own, err := repo.TreeOf(w.Dir)
	var far []target
	for _, t := range w.targets {
		tree, noTree := w.treeOf(repo.Existing(t.path))
		if err != nil || noTree != nil || tree.Top != own.Top || tree.Top != tree.Home || t.Gone {
			far = append(far, t)
		}
	}
	if len(far) == 0 {
		return nil, nil
	}
	st, err := w.Open(ctx, w.Dir)
	if err != nil {
		return nil, err
	}
	all, err := lease.List(ctx, st, lease.ListRequest{})
	if err != nil {
		return nil, err
	}
	for _, l := range all.Locks {
		if l.State != lease.Held || !filepath.IsAbs(l.Worktree) || w.mine(l.Owner) {
			continue
		}
		tree := repo.Canonical(l.Worktree)
		if !repo.IsDir(tree) || tree == own.Home {
			continue
		}
		for _, t := range far {
			if t.hits(tree) {
				return &Denial{Why: Occupied, What: t.Path, Lock: l}, nil
			}
		}
	}
	return nil, nil
}

// mine reports whether the caller may use what an owner holds.
func (w *Writes) mine(owner string) bool {
	return slices.ContainsFunc(w.Owners, func(o string) bool { return lease.MayUse(o, owner) || lease.Serves(owner, o) })
}

// forced is the first command of tasklock that takes something from its holder.
func (w *Writes) forced() string {
	for _, args := range w.Calls {
		if slices.Contains(args, "--help") || slices.Contains(args, "-h") || slices.Contains(args, "--dry-run") {
			continue
		}
		if i := slices.Index(args, "--"); i >= 0 {
			args = args[:i] // behind it is what run starts
		}
		if verb(args) == "break" || slices.Contains(args, "--force") || slices.Contains(args, "--force=true") {
			return "tasklock " + strings.Join(args, " ")
		}
	}
	return ""
}

func verb(args []string) string {
	for i, a := range args {
		if !strings.HasPrefix(a, "-") && (i == 0 || !slices.Contains([]string{"--store", "--owner"}, args[i-1])) {
			return a
		}
	}
	return ""
}
