package shellwrites

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/repo"
)

// The verbs of git that write files of the worktree.

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
		if target == "" || repo.Exists(repo.Absolute(g.dir, ops[0])) && !g.commit(ops[0]) {
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
	g.changed(g.files(operands(g.args)))
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
	var which []string
	for _, e := range values(g.args, 'e', "--exclude") {
		which = append(which, "--exclude="+e)
	}
	if hasFlag(g.args, 'X') {
		which = append(which, "--ignored")
	}
	if hasFlag(g.args, 'X') || !hasFlag(g.args, 'x') {
		which = append(which, "--exclude-standard")
	}
	g.taken(paths, hasFlag(g.args, 'd') || len(paths) > 0, which...)
}

// taken notes as gone what git does not track: all of it, or which. Files in folders
// without a tracked file count only if folders do.
func (g *gitCall) taken(paths []string, folders bool, which ...string) {
	names, err := g.files(orHere(paths), append([]string{"--others"}, which...)...)
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
	if len(ops) > 0 && slices.Contains([]string{"push", "save", "pop", "apply", "list", "show", "drop", "clear", "branch", "create", "store"}, ops[0]) {
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
		g.diff(append([]string{"HEAD"}, g.paths(paths)...)...)
		if hasFlag(g.args, 'a') || has(g.args, "--all") {
			g.taken(paths, true)
		} else if hasFlag(g.args, 'u') || has(g.args, "--include-untracked") {
			g.taken(paths, true, "--exclude-standard")
		}
	}
}

func (g *gitCall) reset() {
	to := append(operands(g.args), "HEAD")[0]
	switch {
	case has(g.args, "--hard"):
		g.diff(to, "--")
	case has(g.args, "--merge", "--keep"):
		g.diff("HEAD", to, "--")
		g.diff("--cached", to, "--")
	}
}

// merge notes what the other side has changed. A pull may bring more, which only the
// remote knows.
func (g *gitCall) merge() {
	if has(g.args, "--abort", "--continue", "--quit", "--skip") {
		g.abort("MERGE_HEAD", "REBASE_HEAD")
		return
	}
	if g.verb == "merge" && (has(g.args, "-s") && slices.Contains(g.args, "ours")) {
		return
	}
	ops := operands(g.args, "-m", "-s", "-X", "--strategy", "-F", "--onto", "-x", "--exec")
	switch {
	case g.verb == "pull" && len(ops) > 1:
		ops = []string{ops[0] + "/" + ops[1]}
	case g.verb == "pull" || len(ops) == 0:
		ops = []string{"@{u}"}
	}
	if g.verb == "rebase" {
		g.diff("HEAD", append(values(g.args, 0, "--onto"), ops...)[0], "--") // it begins there, and comes back
		return
	}
	for _, o := range ops {
		g.diff("HEAD..."+o, "--")
	}
}

// abort discards what a merge, rebase or the like has changed, if one is under way.
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
