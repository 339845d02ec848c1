package cli

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/agent"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/place"
	"github.com/tasklock/tasklock/internal/repo"
)

// What no session may write, lock or no lock: the records of tasklock itself,
// and the worktree in which another session works. Who removes the store frees
// everything, and the tokens begin again.

// deniedAlways says why a tool is denied whoever asks, or nothing.
func (h *hook) deniedAlways(trees map[repo.Tree][]spot) string {
	stores := h.stores(trees)
	for _, t := range h.Targets {
		p, err := h.pathOf(t)
		if err != nil { // no system has such files
			continue
		}
		if p.config() {
			if h.strict() {
				return fmt.Sprintf("tasklock: %s says how locks are checked, and hooks.strict is set: ask a person to change it.\nNext: tasklock config", clean(short(t.Path, 120)))
			}
			continue
		}
		if p.inStoreFolder() || slices.ContainsFunc(stores, p.hits) {
			return fmt.Sprintf("tasklock: %s would change or remove tasklock's own store: every lock would be free, and the tokens would begin again. Only tasklock's commands change it.\nNext: tasklock list",
				clean(short(t.Path, 120)))
		}
	}
	return ""
}

// stores are the files and folders of the stores that the targets could hit: that
// of the session, that of the user, and those of the repositories written to.
func (h *hook) stores(trees map[repo.Tree][]spot) (paths []string) {
	add := func(path string) {
		if real, err := repo.Real(path); path != "" && err == nil && repo.Exists(real) && !slices.Contains(paths, real) {
			paths = append(paths, real)
		}
	}
	of := func(a *App) {
		cfg, err := a.Config()
		if err != nil {
			return
		}
		if cfg.place.Kind != place.User && cfg.place.Folder != "" {
			add(cfg.place.Folder)
		}
		url, _ := cfg.Store()
		if folder, ok := strings.CutPrefix(url, "file:"); ok {
			add(resolvePath(a.Dir, strings.TrimPrefix(folder, "//")))
		}
		if remote, ok := strings.CutPrefix(url, "git:"); ok {
			add(gitFolder(resolvePath(a.Dir, strings.TrimPrefix(remote, "file://"))))
		}
		if path := localPath(url); path != "" {
			path = resolvePath(a.Dir, path)
			add(path)
			for _, more := range []string{"-wal", "-shm", "-journal", ".d"} {
				add(path + more)
			}
		}
	}
	of(h.app)
	for tree := range trees {
		if in := h.in(tree); in != h {
			of(in.app)
		}
	}
	if folder, _ := place.State(h.app.Env); folder != "" {
		add(folder)
	}
	for _, t := range h.Targets { // a folder of repositories, one or two levels down
		if w, err := h.pathOf(t); err == nil && w.Gone && w.rest == nil && repo.IsDir(w.fixed) {
			for _, level := range []string{".", "*", "*/*"} {
				found, _ := filepath.Glob(filepath.Join(globQuote(w.fixed), level, repo.StoreDir))
				for _, f := range found[:min(len(found), 100)] {
					if place.Has(f) {
						add(f)
					}
				}
			}
		}
	}
	return paths
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

// globQuote makes a path stand for itself in a pattern.
func globQuote(path string) string {
	if filepath.Separator == '\\' {
		return path // no quoting there
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// seen is what was found out about folders: a command may write many files of one.
type seen struct {
	real map[string]string
	tree map[string]repo.Tree
}

// real is [repo.Real], which resolves each folder once.
func (h *hook) real(path string) (string, error) {
	path = filepath.Clean(path)
	dir := filepath.Dir(path)
	if dir == path || len(path) > 4<<10 {
		return repo.Real(path)
	}
	real, ok := h.seen.real[dir]
	if !ok {
		var err error
		if real, err = repo.Real(dir); err != nil {
			return "", err
		}
		if h.seen.real == nil {
			h.seen.real = map[string]string{}
		}
		h.seen.real[dir] = real
	}
	path = filepath.Join(real, filepath.Base(path))
	if isLink(path) {
		return repo.Real(path)
	}
	return path, nil
}

// treeOf is [repo.TreeOf], once for each folder.
func (h *hook) treeOf(folder string) (repo.Tree, error) {
	if t, ok := h.seen.tree[folder]; ok {
		return t, nil
	}
	t, err := repo.TreeOf(folder)
	if err == nil {
		if h.seen.tree == nil {
			h.seen.tree = map[string]repo.Tree{}
		}
		h.seen.tree[folder] = t
	}
	return t, err
}

// written is where a target leads, links resolved.
type written struct {
	agent.Target
	fixed string   // up to the first wildcard
	rest  []string // from there
}

func (h *hook) pathOf(t agent.Target) (written, error) {
	w := written{Target: t, fixed: resolvePath(h.app.Dir, t.Path)}
	if t.Pattern {
		fixed, rest := fixedPart(w.fixed)
		w.fixed = filepath.Clean(fixed)
		if rest != "" {
			w.rest = strings.Split(rest, "/")
		}
	}
	ofLink := w.Gone && w.rest == nil // of a link the link goes
	dir, name := filepath.Split(w.fixed)
	if !ofLink {
		dir, name = w.fixed, ""
	}
	real, err := h.real(dir)
	w.fixed = filepath.Join(real, name)
	return w, err
}

// config reports whether the target is a file with settings: they are content
// like any other.
func (w written) config() bool {
	dir, name := filepath.Split(w.fixed)
	return w.rest == nil && (name == "config.yaml" && filepath.Base(dir) == repo.StoreDir || name == sharedName && repo.Exists(filepath.Join(dir, ".git")))
}

// inStoreFolder reports whether the target lies in a folder of tasklock, in
// whichever repository. Where there is none yet, making it is harmless, and so is a
// copy of a repository with all that is in it.
func (w written) inStoreFolder() bool {
	for dir := w.fixed; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) == repo.StoreDir {
			return repo.Exists(dir) || (dir != w.fixed || w.rest != nil) && repo.Exists(filepath.Join(filepath.Dir(dir), ".git"))
		}
	}
	return false
}

// hits reports whether the target writes a store at a path, or takes it away.
func (w written) hits(path string) bool {
	if w.rest == nil {
		return within(path, w.fixed) || w.Gone && within(w.fixed, path)
	}
	rel, err := filepath.Rel(w.fixed, path)
	if err != nil || !filepath.IsLocal(rel) || rel == "." || w.Tree && !w.Gone { // a formatter knows its files
		return within(path, w.fixed)
	}
	parts := strings.Split(filepath.ToSlash(rel), "/")
	for n := 1; n <= len(parts); n++ { // a folder above it is enough if that goes
		if (n == len(parts) || w.Gone) && w.matches(w.rest, parts[:n]) {
			return true
		}
	}
	if !slices.Contains(w.rest, "**") {
		return len(w.rest) > len(parts) && w.matches(w.rest[:len(parts)], parts)
	}
	return w.matchesIn(path)
}

// maxLook bounds how many files of a store are compared with a pattern.
const maxLook = 500

// matchesIn reports whether the pattern means one of the files in a folder.
func (w written) matchesIn(folder string) bool {
	found, seen := false, 0
	_ = filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		rel, no := filepath.Rel(w.fixed, path)
		if seen++; err != nil || no != nil || seen > maxLook {
			return fs.SkipAll
		}
		if found = w.matches(w.rest, strings.Split(filepath.ToSlash(rel), "/")); found {
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// matches compares part by part, as a shell does: a wildcard at the beginning
// of a name matches no dot. What find finds has no such rule.
func (w written) matches(pattern, parts []string) bool {
	if len(pattern) == 0 {
		return len(parts) == 0
	}
	if pattern[0] == "**" {
		for n := range len(parts) + 1 {
			if w.matches(pattern[1:], parts[n:]) {
				return true
			}
		}
		return false
	}
	if len(parts) == 0 || !w.There && strings.HasPrefix(parts[0], ".") && !strings.HasPrefix(pattern[0], ".") {
		return false
	}
	ok, err := filepath.Match(pattern[0], parts[0])
	return ok && err == nil && w.matches(pattern[1:], parts[1:])
}

// within reports whether a path is a folder or lies in it.
func within(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// ofAnother is the worktree in which another session works and that a target
// would change, with the lock that says so.
func (h *hook) ofAnother(ctx context.Context) (*agent.Target, lease.Info, error) {
	var far []written
	own, err := repo.TreeOf(h.app.Dir)
	for _, t := range h.Targets {
		w, wrong := h.pathOf(t)
		if wrong != nil {
			continue
		}
		if tree, no := h.treeOf(repo.Existing(w.fixed)); err != nil || no != nil || tree.Top != own.Top || tree.Top != tree.Home || w.Gone {
			far = append(far, w)
		}
	}
	if len(far) == 0 {
		return nil, lease.Info{}, nil
	}
	st, err := h.store(ctx)
	if err != nil {
		return nil, lease.Info{}, err
	}
	all, err := lease.List(ctx, st, lease.ListRequest{})
	if err != nil {
		return nil, lease.Info{}, err
	}
	for _, l := range all.Locks {
		if l.State != lease.Held || !filepath.IsAbs(l.Worktree) || h.mine(l.Owner) {
			continue
		}
		tree := repo.Canonical(l.Worktree)
		if fi, err := os.Stat(tree); err != nil || !fi.IsDir() || tree == own.Home {
			continue
		}
		for _, w := range far {
			if w.hits(tree) {
				return &w.Target, l, nil
			}
		}
	}
	return nil, lease.Info{}, nil
}

// forced is the first command of tasklock that takes something from its holder.
func (h *hook) forced() string {
	for _, args := range h.Calls {
		if slices.Contains(args, "--help") || slices.Contains(args, "-h") || slices.Contains(args, "--dry-run") {
			continue
		}
		if i := slices.Index(args, "--"); i >= 0 {
			args = args[:i] // behind it is what run starts
		}
		verb := ""
		for i, a := range args {
			if !strings.HasPrefix(a, "-") && (i == 0 || !slices.Contains([]string{"--store", "--owner"}, args[i-1])) {
				verb = a
				break
			}
		}
		if verb == "break" || slices.Contains(args, "--force") || slices.Contains(args, "--force=true") {
			return "tasklock " + strings.Join(args, " ")
		}
	}
	return ""
}

// mine reports whether the caller may use what an owner holds.
func (h *hook) mine(owner string) bool {
	return slices.ContainsFunc(h.owners, func(o string) bool { return lease.Uses(o, owner) || lease.Serves(owner, o) })
}

// worktreeDenial names the holder and the next command.
func (a *App) worktreeDenial(t agent.Target, l lease.Info) string {
	return fmt.Sprintf("tasklock: %s is in the worktree of %s (%s), which works there on %s. Work in a worktree of your own.\nNext: %s",
		clean(short(t.Path, 120)), clean(short(l.Owner, 120)), clean(short(l.Worktree, 120)), clean(short(l.Key, 120)), a.commandLine("next", "--claim", "--worktree"))
}
