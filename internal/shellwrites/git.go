package shellwrites

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/repo"
)

// ErrSlow means that git took too long to answer. Then every file counts as changed.
var ErrSlow = errors.New("git took too long")

// gitCall is one git command, in its folder.
type gitCall struct {
	*shell
	root string // of the worktree
	verb string
	args []string
	slow bool // git did not answer a question in time
}

func (s *shell) git(_ string, args []string) string {
	in := s.sub()
	flags, args := getopt(args, true, "-C", "-c", "--git-dir", "--work-tree", "--namespace")
	for _, dir := range flags.values("-C", "--work-tree") {
		in.dir = repo.Absolute(in.dir, dir)
	}
	if len(args) == 0 || !known(in.dir) {
		return unknown
	}
	g := &gitCall{shell: in, root: rootOf(in.dir), verb: args[0], args: args[1:]}
	makeGit.Do(fillGit)
	switch prints, writes := gitPrints[g.verb], gitWrites[g.verb]; {
	case prints != nil:
		return prints(g)
	case writes != nil:
		if writes(g); g.slow {
			g.add(g.root, Target{Tree: true, There: true})
		}
	case !slices.Contains(reading, g.verb):
		return g.alias()
	}
	return unknown
}

// reading are verbs that have no alias and write no file of the worktree.
var reading = strings.Fields(`add blame branch cat-file check-ignore commit commit-tree config describe fetch for-each-ref fsck gc hash-object help ls-remote
	ls-tree merge-base notes prune push reflog remote rev-list shortlog show show-ref status tag update-index update-ref version write-tree`)

// gitPrints are verbs whose output other commands read, and gitWrites those that only
// write.
var (
	gitPrints map[string]func(*gitCall) string
	gitWrites map[string]func(*gitCall)
	makeGit   sync.Once
)

func fillGit() {
	gitPrints = map[string]func(*gitCall) string{
		"diff": (*gitCall).differs, "ls-files": (*gitCall).listed, "grep": (*gitCall).grep, "rev-parse": (*gitCall).revParse,
	}
	gitWrites = map[string]func(*gitCall){
		"checkout": (*gitCall).checkout, "switch": (*gitCall).checkout, "restore": (*gitCall).restore,
		"rm": (*gitCall).remove, "mv": (*gitCall).move, "clean": (*gitCall).clean, "stash": (*gitCall).stash,
		"reset": (*gitCall).reset, "merge": (*gitCall).merge, "pull": (*gitCall).merge, "rebase": (*gitCall).merge,
		"cherry-pick": (*gitCall).pick, "revert": (*gitCall).pick, "apply": (*gitCall).apply, "am": (*gitCall).apply,
		"read-tree": (*gitCall).readTree, "checkout-index": (*gitCall).checkoutIndex, "worktree": (*gitCall).worktree,
		"format-patch": (*gitCall).formatPatch,
		"archive":      func(g *gitCall) { g.write(values(g.args, 'o', "--output")...) },
		"log":          func(g *gitCall) { g.write(values(g.args, 0, "--output")...) },
		"bundle": func(g *gitCall) {
			if ops := operands(g.args); len(ops) > 1 && ops[0] == "create" {
				g.write(ops[1])
			}
		},
		"clone": func(g *gitCall) {
			if ops := operands(g.args, "-b", "--branch", "--depth", "-o", "--reference"); len(ops) > 1 {
				g.tree(ops[1])
			}
		},
	}
}

// ask runs git for names, relative to the root of the worktree. If that takes too long,
// a command that writes counts as one that changes all files.
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

// files are those that git tracks in some paths, or which.
func (g *gitCall) files(paths []string, which ...string) ([]string, error) {
	return g.ask(slices.Concat([]string{"ls-files", "-z"}, which, g.paths(paths))...)
}

func (g *gitCall) diff(args ...string) bool {
	return g.changed(g.ask(append([]string{"diff", "--no-ext-diff", "--no-textconv", "--name-only", "--no-renames", "-z"}, args...)...))
}

// paths are a "--" and pathspecs from the root. A path outside of it matches nothing.
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
		if rel, err := filepath.Rel(g.root, repo.Absolute(g.dir, p)); err == nil && filepath.IsLocal(rel) {
			out = append(out, filepath.ToSlash(rel))
		} else {
			out = append(out, ":(exclude)*")
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

// meant is the commit that checkout takes for a name: "-" is the previous branch, and a
// branch that only a remote has is created from there. Empty: git has no such commit.
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
