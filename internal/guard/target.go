package guard

import (
	"context"
	"errors"
	"io/fs"
	slashpath "path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/repo"
	"github.com/tasklock/tasklock/internal/shellwrites"
)

// A target is something to be written, where it really is.
type target struct {
	shellwrites.Target
	path string   // links resolved, up to the first wildcard; of a link that goes, the link itself
	rest []string // from the first wildcard on
}

func (w *Writes) resolve(t shellwrites.Target) (target, error) {
	out := target{Target: t, path: repo.Absolute(w.Dir, t.Path)}
	if t.Pattern {
		fixed, rest := cutPattern(out.path)
		out.path = filepath.Clean(fixed)
		if rest != "" {
			out.rest = strings.Split(rest, "/")
		}
	}
	dir, name := out.path, ""
	if t.Gone && out.rest == nil { // of a link the link goes
		dir, name = filepath.Split(out.path)
	}
	real, err := w.real(dir)
	out.path = filepath.Join(real, name)
	return out, err
}

// cutPattern cuts a path before the first part with a wildcard.
func cutPattern(path string) (fixed, rest string) {
	parts := strings.Split(filepath.ToSlash(path), "/")
	i := slices.IndexFunc(parts, func(p string) bool { return strings.ContainsAny(p, "*?") })
	if i < 0 {
		return path, ""
	}
	return filepath.FromSlash(strings.Join(parts[:i], "/") + "/"), strings.Join(parts[i:], "/")
}

// A named target has the name that locks know it by.
type named struct {
	target
	name string
	glob lease.Glob
}

// noTree stands for everything that is in no repository and no project: what is
// locked there is in the user's store, by its whole path.
var noTree = repo.Tree{}

// sort sorts the targets by their worktree. A target outside all of them is in the
// user's store, or in no store if the configuration names one for everything.
func (w *Writes) sort() {
	w.trees = map[repo.Tree][]named{}
	own, noOwn := repo.TreeOf(w.Dir)
	for _, t := range w.targets {
		path, link := t.path, ""
		if t.Gone && t.rest == nil && repo.IsLink(path) {
			path, link = filepath.Dir(path), filepath.Base(path)
		}
		tree, err := w.treeOf(repo.Existing(path))
		if err != nil {
			continue
		}
		var name string
		switch {
		case !tree.Kept() && w.ofUser(tree.Top):
			w.outside, tree, name = tree.Top, noTree, filepath.ToSlash(path)
		case !tree.Kept() && noOwn == nil:
			tree = own
			fallthrough
		default:
			name, err = tree.Name(tree.Top, path)
		}
		if err == nil {
			w.trees[tree] = append(w.trees[tree], t.named(slashpath.Join(name, link)))
		}
	}
}

// ofUser reports whether the store of a folder is the user's.
func (w *Writes) ofUser(dir string) bool {
	s, err := w.Store(dir)
	return err == nil && s.Users
}

// named gives the part of a target before its wildcards a name.
func (t target) named(name string) named {
	rest := strings.Join(t.rest, "/")
	out := named{target: t, name: name, glob: globOf(name, rest, t.Tree)}
	if rest != "" {
		out.name = strings.TrimPrefix(strings.TrimSuffix(name, "/")+"/"+rest, "./")
	}
	return out
}

func globOf(name, rest string, tree bool) lease.Glob {
	if name == "." {
		name = ""
	}
	switch {
	case rest != "":
		if tree {
			rest += "/**"
		}
		if name != "" {
			rest = strings.TrimSuffix(name, "/") + "/" + rest
		}
		if g, err := lease.ParseGlob(rest); err == nil {
			return g
		}
		return lease.Tree(name)
	case tree || name == "":
		return lease.Tree(name)
	}
	return lease.File(name)
}

// storeDir is the folder whose store has the locks of a tree: mostly our own.
func (w *Writes) storeDir(tree repo.Tree) string {
	own, err := repo.TreeOf(w.Dir)
	switch {
	case tree == noTree && w.ofUser(w.Dir), tree != noTree && err == nil && own.Home == tree.Home:
		return w.Dir
	case tree == noTree:
		return w.outside
	}
	return tree.Top
}

// LookTime is how long guard looks for a file that is there already; after that it
// assumes that there is one. Tests are more patient.
var LookTime = 70 * time.Millisecond

var errFound = errors.New("a file is there")

// fileIn reports whether a file is there that both the command and the lock mean.
func fileIn(ctx context.Context, tree repo.Tree, name string, target, locked lease.Glob) bool {
	ctx, cancel := context.WithTimeout(ctx, LookTime)
	defer cancel()
	fixed, _ := cutPattern(name)
	start := filepath.FromSlash(fixed)
	if tree != noTree {
		start = filepath.Join(tree.Top, start)
	}
	err := filepath.WalkDir(start, func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return nil
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		}
		if tree != noTree {
			path, err = filepath.Rel(tree.Top, path)
		}
		if f := lease.File(filepath.ToSlash(path)); err == nil && locked.Overlaps(f) && target.Overlaps(f) {
			return errFound
		}
		return nil
	})
	return err != nil
}

// seen is what is known about folders: a command may write many files of one.
type seen struct {
	real map[string]string
	tree map[string]repo.Tree
}

// real is [repo.Real], which resolves each folder once.
func (w *Writes) real(path string) (string, error) {
	path = filepath.Clean(path)
	dir := filepath.Dir(path)
	if dir == path || len(path) > 4<<10 {
		return repo.Real(path)
	}
	real, err := once(w.seen.real, dir, repo.Real)
	if err != nil {
		return "", err
	}
	path = filepath.Join(real, filepath.Base(path))
	if repo.IsLink(path) {
		return repo.Real(path)
	}
	return path, nil
}

// treeOf is [repo.TreeOf], once for each folder.
func (w *Writes) treeOf(folder string) (repo.Tree, error) {
	return once(w.seen.tree, folder, repo.TreeOf)
}

func once[V any](seen map[string]V, path string, find func(string) (V, error)) (V, error) {
	if v, ok := seen[path]; ok {
		return v, nil
	}
	v, err := find(path)
	if err == nil {
		seen[path] = v
	}
	return v, err
}
