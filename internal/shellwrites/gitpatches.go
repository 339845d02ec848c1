package shellwrites

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/repo"
)

// More verbs of git: patches, the index, names that it prints, aliases.

// apply notes what patches change. The mails of am have patches in them.
func (g *gitCall) apply() {
	if has(g.args, "--abort") {
		g.abort("REBASE_HEAD")
		return
	}
	looks := has(g.args, "--check", "--stat", "--numstat", "--summary") && !has(g.args, "--apply")
	if looks || has(g.args, "--cached", "--continue", "--skip", "--show-current-patch", "--quit") {
		return
	}
	strip := number(values(g.args, 'p', ""), 1)
	in := *g.shell
	if g.verb == "am" && g.root != "" {
		in.dir = g.root
	}
	if d := values(g.args, 0, "--directory"); len(d) > 0 {
		in.dir = repo.Absolute(g.root, d[0])
	}
	files := operands(g.args, "-p", "--directory", "--exclude", "--include", "-C")
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, f := range files {
		in.write(patchedFiles(g.content(f), strip)...)
	}
}

func (g *gitCall) readTree() {
	ops := operands(g.args, "--prefix", "--exclude-per-directory", "--index-output")
	if !hasFlag(g.args, 'u') || len(ops) == 0 || hasFlag(g.args, 'n') {
		return
	}
	to := ops[len(ops)-1]
	if has(g.args, "--reset") {
		g.diff(to, "--")
		return
	}
	g.diff("HEAD", to, "--")
}

func (g *gitCall) checkoutIndex() {
	if hasFlag(g.args, 'n') {
		return
	}
	paths := operands(g.args)
	if prefix := last(values(g.args, 0, "--prefix"), ""); prefix != "" {
		names, _ := g.files(paths)
		for _, n := range names {
			g.write(prefix + n)
		}
		return
	}
	if hasFlag(g.args, 'a') || has(g.args, "--all") {
		paths = []string{"."}
	}
	if len(paths) == 0 {
		return
	}
	if hasFlag(g.args, 'f') || has(g.args, "--force") {
		g.diff(g.paths(paths)...)
		return
	}
	g.changed(g.files(paths, "--deleted"))
}

func (g *gitCall) worktree() {
	if len(g.args) == 0 {
		return
	}
	ops := operands(g.args[1:], "-b", "-B", "--reason", "--orphan")
	switch {
	case len(ops) == 0:
	case g.args[0] == "add":
		g.tree(ops[0])
	case g.args[0] == "remove" || g.args[0] == "move":
		g.gone(ops[0])
		if len(ops) > 1 {
			g.tree(ops[1])
		}
	}
}

func (g *gitCall) formatPatch() {
	if has(g.args, "--stdout") {
		return
	}
	dir := last(values(g.args, 'o', "--output-directory"), ".")
	g.write(strings.TrimSuffix(dir, "/") + "/" + anyName + ".patch")
}

// listed are the names that ls-files prints, from the folder.
func (g *gitCall) listed() string {
	ask := slices.DeleteFunc(slices.Clone(g.args), func(a string) bool { return a == "-z" })
	paths, dashes := afterDashes(ask)
	if !dashes {
		paths = operands(ask, "-x", "-X", "--exclude", "--exclude-from")
	}
	flags := slices.DeleteFunc(ask, func(a string) bool { return !strings.HasPrefix(a, "-") || a == "--" })
	names, err := g.files(orHere(paths), flags...)
	if g.slow {
		return g.all()
	}
	if err != nil || hasFlag(flags, 's') {
		return unknown
	}
	return printed(g.existing(g.fromHere(names)))
}

// differs writes a diff into a file, or prints the names of what differs.
func (g *gitCall) differs() string {
	g.write(values(g.args, 0, "--output")...)
	if !has(g.args, "--name-only") {
		return unknown
	}
	args := slices.DeleteFunc(slices.Clone(g.args), func(a string) bool {
		return a == "-z" || abbreviates(a, "--ext-diff") || abbreviates(a, "--textconv") || abbreviates(a, "--output")
	})
	names, err := g.ask(append([]string{"diff", "--no-ext-diff", "--no-textconv", "-z"}, args...)...)
	if g.slow {
		return g.all()
	}
	if err != nil {
		return unknown
	}
	return printed(g.existing(names)) // from the root, wherever it runs
}

// abbreviates reports whether git takes a word for a long flag: a beginning of its name
// is enough.
func abbreviates(word, flag string) bool {
	name, _, _ := strings.Cut(word, "=")
	return len(name) > 2 && strings.HasPrefix(flag, name) || strings.HasPrefix(word, flag)
}

// all are patterns for every file that git could name here, which are none of the store.
func (g *gitCall) all() string {
	list, _ := os.ReadDir(g.dir)
	var out []string
	for _, e := range list {
		switch {
		case e.Name() == ".git" || e.Name() == ".tasklock":
		case e.IsDir():
			out = append(out, below(e.Name(), ""))
		default:
			out = append(out, e.Name())
		}
	}
	return printed(g.existing(out))
}

// fromHere are names of git as they are from its folder.
func (g *gitCall) fromHere(names []string) (out []string) {
	for _, n := range names {
		if rel, err := filepath.Rel(g.dir, filepath.Join(g.root, n)); err == nil {
			out = append(out, filepath.ToSlash(rel))
		}
	}
	return out
}

func (g *gitCall) grep() string {
	if !hasFlag(g.args, 'l') && !has(g.args, "--files-with-matches", "--name-only") {
		return unknown
	}
	return g.shell.grep("git grep", slices.DeleteFunc(slices.Clone(g.args), func(a string) bool { return a == "--" }))
}

func (g *gitCall) revParse() string {
	if len(g.args) == 1 && g.args[0] == "--show-toplevel" && g.root != "" {
		return g.root + "\n"
	}
	return unknown
}

// alias follows the command that a user has given this name.
func (g *gitCall) alias() string {
	if g.r.view.Git == nil || g.root == "" || strings.Trim(g.verb, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") != "" {
		return unknown
	}
	out, err := g.r.view.Git(g.root, "config", "--get", "alias."+g.verb)
	out = strings.TrimSpace(out)
	if err != nil || out == "" {
		return unknown
	}
	return g.r.nested(func() string {
		if cmd, ok := strings.CutPrefix(out, "!"); ok {
			in := g.sub()
			in.dir, in.params = g.root, g.args
			return in.script(cmd + ` "$@"`)
		}
		return g.shell.git("", append(split(out, false), g.args...))
	})
}
