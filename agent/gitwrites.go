package agent

import (
	"os"
	"slices"
	"strings"
)

// git notes what throws away or overwrites changes in the working tree.
func (s *shell) git(args []shellWord) {
	dir := s.dir
	for len(args) > 0 && strings.HasPrefix(args[0].text, "-") {
		n := 1
		if slices.Contains([]string{"-C", "-c", "--git-dir", "--work-tree", "--namespace"}, args[0].text) && len(args) > 1 {
			if args[0].text == "-C" {
				dir = join(dir, args[1].text)
			}
			n = 2
		}
		args = args[n:]
	}
	if len(args) == 0 {
		return
	}
	in := &shell{dir: dir, env: s.env, room: s.room}
	in.gitVerb(args[0].text, args[1:])
	s.out = append(s.out, in.out...)
}

func (s *shell) gitVerb(verb string, args []shellWord) {
	all := Target{Path: s.dir, Tree: true, Unsaved: true}
	paths, after := afterDashes(args)
	switch verb {
	case "switch":
		if has(args, "-f", "--force", "--discard-changes") {
			s.out = append(s.out, all)
		}
	case "checkout", "restore":
		if verb == "checkout" && has(args, "-f", "--force") {
			s.out = append(s.out, all)
		}
		if !after {
			paths = slices.DeleteFunc(operands(args, "-b", "-B", "--orphan", "-s", "--source"), func(w shellWord) bool {
				_, err := os.Lstat(s.path(w)) // else it is a branch
				return err != nil && w.pattern == "" && verb == "checkout"
			})
		}
		if verb == "restore" && has(args, "--staged", "-S") && !has(args, "--worktree", "-W") {
			return
		}
		s.changes(paths)
	case "rm", "mv":
		s.each(operands(args), true)
	case "worktree":
		if len(args) > 0 && slices.Contains([]string{"remove", "move"}, args[0].text) {
			ops := operands(args[1:])
			s.gone(ops[:min(1, len(ops))])
		}
	case "clean":
		if has(args, "-n", "--dry-run") || hasCluster(args, 'n') {
			return
		}
		if !after {
			paths = operands(args, "-e", "--exclude")
		}
		if len(paths) == 0 {
			s.out = append(s.out, all)
		}
		s.changes(paths)
		keeps := slices.ContainsFunc(args, func(a shellWord) bool { return strings.Contains(a.text, ".tasklock") })
		if (hasCluster(args, 'x') || hasCluster(args, 'X')) && !keeps { // ignored files too, as the store is
			s.ignored(paths)
		}
	case "stash":
		ops := operands(args, "-m", "--message")
		if len(ops) > 0 && !slices.Contains([]string{"push", "save"}, ops[0].text) {
			return // list, show, pop: nothing that others have changed is lost
		}
		if !after && len(ops) > 1 && ops[0].text == "push" {
			paths = ops[1:]
		}
		if len(paths) == 0 {
			s.out = append(s.out, all)
		}
		s.changes(paths)
		if has(args, "--all") || hasCluster(args, 'a') {
			s.ignored(paths)
		}
	case "reset":
		if has(args, "--hard", "--merge", "--keep") {
			s.out = append(s.out, all)
		}
	}
}

// changes notes paths of which only what is changed matters.
func (s *shell) changes(paths []shellWord) {
	from := len(s.out)
	s.each(paths, true)
	for i := range s.out[from:] {
		s.out[from+i].Unsaved = true
	}
}

// ignored notes that what git ignores is taken away in these paths, or everywhere.
func (s *shell) ignored(paths []shellWord) {
	if len(paths) == 0 {
		paths = []shellWord{exactly(".")}
	}
	from := len(s.out)
	s.gone(paths)
	for i := range s.out[from:] {
		s.out[from+i].Unsaved = true
	}
}

// afterDashes returns what follows "--", and whether there is one.
func afterDashes(args []shellWord) ([]shellWord, bool) {
	for i, a := range args {
		if a.text == "--" {
			return args[i+1:], true
		}
	}
	return nil, false
}
