package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	slashpath "path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/agent"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/repo"
)

// spot is a target under the name that it has in every worktree.
type spot struct {
	agent.Target
	name string
	glob lease.Glob
}

// judge denies a tool that would write what another owner has locked. What
// counts is where it writes, not where it runs.
func (h *hook) judge(ctx context.Context) error {
	trees := h.places()
	if why := h.deniedAlways(trees); why != "" {
		return h.deny(why)
	}
	if forced := h.forced(); forced != "" && h.strict() {
		return h.deny(fmt.Sprintf("tasklock: %q takes a lock from its holder, and hooks.strict is set: ask a person to do it.\nNext: %s", clean(short(forced, 120)), h.app.commandLine("list")))
	}
	if h.Session == "" && h.app.id.Source == agent.FromProcess {
		return fmt.Errorf("the event names no session, so nobody can tell whose edit this is")
	}
	var faults []error // one repository that cannot be asked does not excuse the others
	if h.Cut {
		faults = append(faults, fmt.Errorf("the command has more than %d bytes, of which only the first were read", agent.MaxCommand))
	}
	if h.Unsure != "" && !h.Cut && h.strict() {
		faults = append(faults, fmt.Errorf("%s", h.Unsure))
	}
	if len(trees) == 0 {
		return errors.Join(append(faults, h.renew(ctx))...)
	}
	if t, l, err := h.ofAnother(ctx); err == nil && t != nil { // what cannot be read is said below
		return h.deny(h.app.worktreeDenial(*t, l))
	}
	for tree, places := range trees {
		in := h.in(tree)
		p, l, err := in.deniedIn(ctx, tree, places)
		switch {
		case err != nil:
			faults = append(faults, err)
		case p != nil:
			return h.deny(h.app.denial(*p, l))
		case in != h:
			in.app.signOfLife()
		}
	}
	return errors.Join(faults...)
}

// deniedIn is the first place in a repository that another owner has locked,
// with the lock.
func (h *hook) deniedIn(ctx context.Context, tree repo.Tree, places []spot) (*spot, lease.Info, error) {
	st, err := h.store(ctx)
	if err != nil {
		return nil, lease.Info{}, err
	}
	var globs []lease.Glob
	for _, p := range places {
		globs = append(globs, p.glob)
	}
	found, err := lease.Touching(ctx, st, lease.TouchingRequest{Owners: h.owners, Places: globs})
	if err != nil {
		return nil, lease.Info{}, err
	}
	look := &looker{ctx: ctx, top: tree.Top, whole: tree == whole}
	for _, l := range found {
		if p := look.touched(l, places); p != nil {
			return p, l, nil
		}
	}
	return nil, lease.Info{}, nil
}

// looker looks what is there in a worktree.
type looker struct {
	ctx   context.Context
	top   string
	whole bool // names are whole paths
}

// in is the hook for the store of a repository: mostly our own.
func (h *hook) in(tree repo.Tree) *hook {
	if tree == whole && h.ofUser(h.app.Dir) {
		return h
	}
	if own, err := repo.TreeOf(h.app.Dir); tree != whole && err == nil && own.Home == tree.Home {
		return h
	}
	other := *h
	other.app = h.app.at(tree.Top)
	if tree == whole {
		other.app = h.app.at(h.outside)
	}
	return &other
}

// at is the same command in another folder.
func (a *App) at(dir string) *App {
	app := *a
	app.Dir, app.cfg, app.cfgErr, app.st, app.life = dir, nil, nil, nil, nil
	return &app
}

// whole stands for everything that is in no repository and no project: what is
// locked there is in the user's store, by its whole path.
var whole = repo.Tree{}

// ofUser reports whether the store of a folder is the user's.
func (h *hook) ofUser(dir string) bool {
	app := h.app
	if dir != app.Dir {
		app = app.at(dir)
	}
	cfg, err := app.Config()
	return err == nil && cfg.users()
}

// places sorts what is to be written by the worktree it lies in. What is in
// none is in the user's store, or nobody's business if one was named for everything.
func (h *hook) places() map[repo.Tree][]spot {
	out := map[repo.Tree][]spot{}
	own, noOwn := repo.TreeOf(h.app.Dir)
	for _, t := range h.Targets {
		path := t.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(h.app.Dir, path)
		}
		fixed, rest := path, ""
		if t.Pattern {
			fixed, rest = fixedPart(path)
		}
		link := "" // of a link that goes, only the link goes
		if t.Gone && rest == "" && isLink(fixed) {
			fixed, link = filepath.Dir(fixed), filepath.Base(fixed)
		}
		real, err := h.real(fixed)
		if err != nil {
			continue
		}
		tree, err := h.treeOf(repo.Existing(real))
		if err != nil {
			continue
		}
		var name string
		switch {
		case !tree.Kept() && h.ofUser(tree.Top):
			h.outside, tree, name = tree.Top, whole, filepath.ToSlash(real)
		case !tree.Kept() && noOwn == nil:
			tree = own
			fallthrough
		default:
			name, err = tree.Name(tree.Top, real)
		}
		if err != nil {
			continue
		}
		p := spot{Target: t, name: slashpath.Join(name, link)}
		p.glob = globOf(p.name, rest, t.Tree)
		if rest != "" {
			p.name = strings.TrimPrefix(strings.TrimSuffix(name, "/")+"/"+rest, "./")
		}
		out[tree] = append(out[tree], p)
	}
	return out
}

// fixedPart cuts a path before the first part with a wildcard.
func fixedPart(path string) (fixed, rest string) {
	parts := strings.Split(filepath.ToSlash(path), "/")
	i := slices.IndexFunc(parts, func(p string) bool { return strings.ContainsAny(p, "*?") })
	if i < 0 {
		return path, ""
	}
	return filepath.FromSlash(strings.Join(parts[:i], "/") + "/"), strings.Join(parts[i:], "/")
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

// touched is the place that a lock covers.
func (k *looker) touched(l lease.Info, places []spot) *spot {
	_, name := lease.KindOf(l.Key)
	g, err := lease.ParseGlob(name)
	if err != nil {
		return nil
	}
	for _, p := range places {
		if !p.glob.Overlaps(g) || p.There && !k.there(name, p.glob, g) {
			continue
		}
		return &p
	}
	return nil
}

// statusTime is how long is looked for a file that is there; else it counts as
// if there were one. Tests are more patient.
var statusTime = 70 * time.Millisecond

// there reports whether a file is there that both the command and the lock
// mean. If that takes too long, it counts as if one were.
func (k *looker) there(locked string, place, g lease.Glob) bool {
	ctx, cancel := context.WithTimeout(k.ctx, statusTime)
	defer cancel()
	fixed, _ := fixedPart(locked)
	start := filepath.FromSlash(fixed)
	if !k.whole {
		start = filepath.Join(k.top, start)
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
		rel, err := filepath.Rel(k.top, path)
		if k.whole {
			rel, err = path, nil
		}
		if f := lease.File(filepath.ToSlash(rel)); err == nil && g.Overlaps(f) && place.Overlaps(f) {
			return errThere
		}
		return nil
	})
	return err != nil
}

var errThere = errors.New("a file is there")

// changedFiles asks git which files below a path differ from the last commit,
// untracked ones too, by their names in the repository.
func changedFiles(ctx context.Context, limit time.Duration, top, path string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain", "-z", "-uall", "--", path)
	cmd.Dir, cmd.WaitDelay = top, limit
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	return parseChanges(string(out)), nil
}

// parseChanges reads "XY name\0", and for renames a second name.
func parseChanges(out string) (names []string) {
	fields := strings.Split(out, "\x00")
	for i := 0; i < len(fields); i++ {
		if len(fields[i]) < 4 {
			continue
		}
		names = append(names, fields[i][3:])
		if strings.ContainsAny(fields[i][:2], "RC") && i+1 < len(fields) {
			i++
			names = append(names, fields[i])
		}
	}
	return names
}

// denial names the holder and the next command.
func (a *App) denial(p spot, l lease.Info) string {
	now := a.Now()
	pr := &printer{now: now}
	key := string(lease.Path) + ":" + p.name
	if _, err := lease.CheckKey(key); err != nil {
		key = l.Key
	}
	text := fmt.Sprintf("tasklock: %s is locked by %s (%s), %s, last heartbeat %s.",
		clean(short(p.name, 120)), clean(short(l.Owner, 120)), clean(short(l.Key, 120)), pr.endsIn(l.ExpiresAt), pr.relative(l.HeartbeatAt))
	if why := reasonOf(l.Reason); why != "" {
		text += "\n" + why
	}
	wait := a.commandLine("acquire", key, "--wait", "90s")
	if other := a.otherWork(); other != "" {
		return text + "\nNext: " + other + "\nOr wait: " + wait
	}
	return text + "\nNext: " + wait
}
