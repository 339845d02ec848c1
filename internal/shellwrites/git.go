package shellwrites

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrSlow: git took too long to answer, so everything counts as changed.
var ErrSlow = errors.New("git took too long")

// gitCall is one git command, in its folder.
type gitCall struct {
	*shell
	root string // of the worktree
	verb string
	args []string
	slow bool // git took too long to say something
}

func (s *shell) git(_ string, args []string) string {
	in := s.sub()
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		n := 1
		if contains([]string{"-C", "-c", "--git-dir", "--work-tree", "--namespace"}, args[0]) && len(args) > 1 {
			if args[0] == "-C" || args[0] == "--work-tree" {
				in.dir = join(in.dir, args[1])
			}
			n = 2
		}
		if tree, ok := strings.CutPrefix(args[0], "--work-tree="); ok {
			in.dir = join(in.dir, tree)
		}
		args = args[n:]
	}
	if len(args) == 0 || !known(in.dir) {
		return unknown
	}
	g := &gitCall{shell: in, root: rootOf(in.dir), verb: args[0], args: args[1:]}
	if act, ok := gitVerbs[g.verb]; ok {
		return act(g)
	}
	if !reading[g.verb] {
		return g.alias()
	}
	return unknown
}

// reading are verbs that have no alias and write no file of the worktree.
var reading = map[string]bool{
	"status": true, "show": true, "commit": true, "add": true, "push": true, "fetch": true, "branch": true, "tag": true,
	"remote": true, "config": true, "blame": true, "describe": true, "cat-file": true, "gc": true, "notes": true, "reflog": true, "shortlog": true,
	"ls-tree": true, "ls-remote": true, "merge-base": true, "rev-list": true, "for-each-ref": true, "show-ref": true, "help": true, "version": true,
	"update-ref": true, "hash-object": true, "write-tree": true, "commit-tree": true, "update-index": true, "fsck": true, "prune": true, "check-ignore": true,
}

var gitVerbs map[string]func(*gitCall) string

func init() {
	quiet := func(f func(*gitCall)) func(*gitCall) string {
		return func(g *gitCall) string {
			if f(g); g.slow {
				g.add(g.root, Target{Tree: true, There: true})
			}
			return unknown
		}
	}
	gitVerbs = map[string]func(*gitCall) string{
		"checkout": quiet((*gitCall).checkout), "switch": quiet((*gitCall).checkout), "restore": quiet((*gitCall).restore),
		"rm": quiet((*gitCall).remove), "mv": quiet((*gitCall).move), "clean": quiet((*gitCall).clean), "stash": quiet((*gitCall).stash),
		"reset": quiet((*gitCall).reset), "merge": quiet((*gitCall).merge), "pull": quiet((*gitCall).merge), "rebase": quiet((*gitCall).merge),
		"cherry-pick": quiet((*gitCall).pick), "revert": quiet((*gitCall).pick), "apply": quiet((*gitCall).apply), "am": quiet((*gitCall).apply),
		"read-tree": quiet((*gitCall).readTree), "checkout-index": quiet((*gitCall).checkoutIndex), "worktree": quiet((*gitCall).worktree),
		"archive": quiet(func(g *gitCall) { g.write(values(g.args, 'o', "--output")...) }),
		"diff":    (*gitCall).differs,
		"log":     quiet(func(g *gitCall) { g.write(values(g.args, 0, "--output")...) }),
		"bundle": quiet(func(g *gitCall) {
			if ops := operands(g.args); len(ops) > 1 && ops[0] == "create" {
				g.write(ops[1])
			}
		}),
		"format-patch": quiet((*gitCall).formatPatch),
		"clone": quiet(func(g *gitCall) {
			if ops := operands(g.args, "-b", "--branch", "--depth", "-o", "--reference"); len(ops) > 1 {
				g.tree(ops[1])
			}
		}),
		"ls-files": (*gitCall).listed, "grep": (*gitCall).grep, "rev-parse": (*gitCall).revParse,
	}
}

// ask runs git for names, relative to the root of the worktree. Where that takes too
// long, all of them count as changed; a command that only prints them changes none.
func (g *gitCall) ask(args ...string) (names []string, err error) {
	if g.r.view.Git == nil || g.root == "" {
		return nil, errors.New("no git")
	}
	for _, a := range args {
		if !known(a) {
			return nil, errors.New("not known")
		}
	}
	began := time.Now()
	out, err := g.r.view.Git(g.root, args...)
	g.r.until = g.r.until.Add(time.Since(began)) // git has a bound of its own
	g.slow = g.slow || errors.Is(err, ErrSlow)
	for name := range strings.SplitSeq(out, "\x00") {
		if name = strings.TrimLeft(name, "\n"); name != "" {
			names = append(names, name)
		}
	}
	return names, err
}

// changed notes files by the names that git has for them.
func (g *gitCall) changed(names []string, err error) bool {
	if err != nil {
		return false
	}
	for _, n := range many(names) {
		g.add(filepath.Join(g.root, filepath.FromSlash(n)), Target{})
	}
	return true
}

func (g *gitCall) diff(args ...string) bool {
	return g.changed(g.ask(append([]string{"diff", "--no-ext-diff", "--no-textconv", "--name-only", "--no-renames", "-z"}, args...)...))
}

// paths are pathspecs from the root, behind "--".
func (g *gitCall) paths(list []string) []string {
	out := []string{"--"}
	for _, p := range list {
		if !known(p) {
			continue
		}
		if strings.HasPrefix(p, ":") {
			out = append(out, p)
			continue
		}
		if rel, err := filepath.Rel(g.root, join(g.dir, p)); err == nil && filepath.IsLocal(rel) {
			out = append(out, filepath.ToSlash(rel))
		} else {
			out = append(out, ":(exclude)*") // outside: nothing
		}
	}
	return out
}

// commit reports whether git knows a commit of that name.
func (g *gitCall) commit(name string) bool {
	if name == "" || strings.HasPrefix(name, "-") {
		return false
	}
	_, err := g.ask("rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{tree}")
	return err == nil
}

// meant is the commit behind a name: "-" is the branch before, and a branch that
// only a remote has is made from that.
func (g *gitCall) meant(name string) string {
	if name == "-" {
		return "@{-1}"
	}
	if g.commit(name) {
		return name
	}
	for _, remote := range []string{"origin/", "upstream/"} {
		if g.commit(remote + name) {
			return remote + name
		}
	}
	return ""
}

func (g *gitCall) checkout() {
	valued := []string{"-b", "-B", "-c", "-C", "--orphan", "--conflict", "--pathspec-from-file", "--create", "--force-create"}
	paths, dashes := afterDashes(g.args)
	before := g.args
	if dashes {
		before = g.args[:len(g.args)-len(paths)-1]
	}
	ops := operands(before, valued...)
	if g.verb == "checkout" && len(ops) == 1 && ops[0] == "-" || has(before, "-") {
		ops = []string{"-"}
	}
	force := hasFlag(before, 'f') || has(before, "--force", "--discard-changes")
	target := ""
	if len(ops) > 0 {
		target = g.meant(ops[0])
	}
	if g.verb == "checkout" && !dashes {
		if target == "" || exists(join(g.dir, ops[0])) && !g.commit(ops[0]) {
			paths, target = ops, ""
		} else if len(ops) > 1 {
			paths = ops[1:]
		}
	}
	switch {
	case len(paths) > 0 && target == "" && !hasFlag(before, 'b', 'B'):
		g.diff(g.paths(paths)...)
	case len(paths) > 0 && !hasFlag(before, 'b', 'B'):
		g.diff(append([]string{"--diff-filter=a", target}, g.paths(paths)...)...) // what is not there stays
	case force && target != "":
		g.diff(target, "--")
	case force:
		g.diff("HEAD", "--")
	case target != "":
		g.diff("HEAD", target, "--")
	}
}

func (g *gitCall) restore() {
	staged := hasFlag(g.args, 'S') || has(g.args, "--staged")
	if staged && !hasFlag(g.args, 'W') && !has(g.args, "--worktree") {
		return
	}
	paths := operands(g.args, "-s", "--source", "--conflict", "--pathspec-from-file")
	source := values(g.args, 's', "--source")
	if len(source) == 0 && staged {
		source = []string{"HEAD"}
	}
	if len(paths) > 0 {
		g.diff(append(source, g.paths(paths)...)...)
	}
}

func (g *gitCall) remove() {
	if has(g.args, "--cached", "--dry-run") || hasFlag(g.args, 'n') {
		return
	}
	g.changed(g.ask(append([]string{"ls-files", "-z"}, g.paths(operands(g.args))...)...))
}

func (g *gitCall) move() {
	if hasFlag(g.args, 'n') || has(g.args, "--dry-run") {
		return
	}
	g.copies("mv", g.args)
}

// clean notes what git does not track. What it ignores goes too with -x.
func (g *gitCall) clean() {
	if has(g.args, "--dry-run") || hasFlag(g.args, 'n') || !hasFlag(g.args, 'f') && !has(g.args, "--force") && !has(g.args, "-i") {
		return
	}
	paths := operands(g.args, "-e", "--exclude")
	ask := []string{"ls-files", "-z", "--others"}
	for _, e := range values(g.args, 'e', "--exclude") {
		ask = append(ask, "--exclude="+e)
	}
	if !hasFlag(g.args, 'x', 'X') {
		ask = append(ask, "--exclude-standard")
	}
	if hasFlag(g.args, 'X') {
		ask = append(ask, "--ignored", "--exclude-standard")
	}
	g.taken(ask, paths, hasFlag(g.args, 'd') || len(paths) > 0)
}

// taken notes files that git lists, in folders too if so, as gone.
func (g *gitCall) taken(ask, paths []string, folders bool) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	names, err := g.ask(append(ask, g.paths(paths)...)...)
	if err != nil {
		return
	}
	tracked := map[string]bool{"": true}
	if !folders {
		all, _ := g.ask("ls-files", "-z")
		for _, n := range all {
			for d := filepath.ToSlash(filepath.Dir(n)); d != "."; d = filepath.ToSlash(filepath.Dir(d)) {
				tracked[d] = true
			}
		}
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		dir := filepath.ToSlash(filepath.Dir(n))
		return !folders && dir != "." && !tracked[dir]
	})
	for _, n := range many(names) {
		g.add(filepath.Join(g.root, filepath.FromSlash(n)), Target{Gone: true})
	}
}

func (g *gitCall) stash() {
	ops := operands(g.args, "-m", "--message")
	verb := "push"
	if len(ops) > 0 && contains([]string{"push", "save", "pop", "apply", "list", "show", "drop", "clear", "branch", "create", "store"}, ops[0]) {
		verb, ops = ops[0], ops[1:]
	}
	switch verb {
	case "pop", "apply", "branch":
		ref := "stash@{0}"
		if n := len(ops); n > 0 && verb != "branch" {
			ref = ops[0]
			if strings.Trim(ref, "0123456789") == "" {
				ref = "stash@{" + ref + "}"
			}
		}
		g.diff(ref+"^1", ref, "--")
		g.changed(g.ask("ls-tree", "-r", "--name-only", "-z", "--full-tree", ref+"^3"))
	case "push", "save":
		paths, _ := afterDashes(g.args)
		if paths == nil && verb == "push" {
			paths = ops
		}
		if has(g.args, "--staged") || hasFlag(g.args, 'S') {
			g.diff("--cached")
			return
		}
		all := hasFlag(g.args, 'a') || has(g.args, "--all")
		g.diff(append([]string{"HEAD"}, g.paths(paths)...)...)
		if all {
			g.taken([]string{"ls-files", "-z", "--others"}, paths, true)
		} else if hasFlag(g.args, 'u') || has(g.args, "--include-untracked") {
			g.taken([]string{"ls-files", "-z", "--others", "--exclude-standard"}, paths, true)
		}
	}
}

func (g *gitCall) reset() {
	ops := operands(g.args)
	to := "HEAD"
	if len(ops) > 0 {
		to = ops[0]
	}
	switch {
	case has(g.args, "--hard"):
		g.diff(to, "--")
	case has(g.args, "--merge", "--keep"):
		g.diff("HEAD", to, "--")
		g.diff("--cached", to, "--")
	}
}

// merge notes what the other side has changed. A pull may bring more than is
// known here: that cannot be told without asking the remote.
func (g *gitCall) merge() {
	if has(g.args, "--abort", "--continue", "--quit", "--skip") {
		g.abort("MERGE_HEAD", "REBASE_HEAD")
		return
	}
	if g.verb == "merge" && (has(g.args, "-s") && contains(g.args, "ours")) {
		return
	}
	ops := operands(g.args, "-m", "-s", "-X", "--strategy", "-F", "--onto", "-x", "--exec")
	if g.verb == "pull" {
		switch len(ops) {
		case 0, 1:
			ops = []string{"@{u}"}
		default:
			ops = []string{ops[0] + "/" + ops[1]}
		}
	}
	if len(ops) == 0 && g.verb != "pull" {
		ops = []string{"@{u}"}
	}
	if g.verb == "rebase" {
		ops = append(values(g.args, 0, "--onto"), ops...)[:1]
	}
	for _, o := range ops {
		if g.verb == "rebase" {
			g.diff("HEAD", o, "--") // it begins there, and comes back
			continue
		}
		g.diff("HEAD..."+o, "--")
	}
}

// abort throws away what a merge or the like has changed, if one is under way.
func (g *gitCall) abort(heads ...string) {
	if has(g.args, "--abort") && slices.ContainsFunc(heads, g.commit) {
		g.diff("HEAD", "--")
	}
}

func (g *gitCall) pick() {
	if has(g.args, "--abort", "--continue", "--quit", "--skip") {
		g.abort("CHERRY_PICK_HEAD", "REVERT_HEAD")
		return
	}
	for _, c := range operands(g.args, "-m", "--mainline", "-X", "-s", "--strategy") {
		ask := []string{"log", "-m", "--first-parent", "--no-ext-diff", "--name-only", "--no-renames", "--format=", "-z"}
		if !strings.Contains(c, "..") {
			ask = append(ask, "--no-walk")
		}
		g.changed(g.ask(append(ask, c, "--")...))
	}
}
