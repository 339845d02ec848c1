package shellwrites

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/repo"
)

// The program find, and walks through folders.

var errMany = errors.New("too many files")

// maxWalked limits how many files one walk sees.
const maxWalked = 20_000

// walk visits what is in a folder, without git's own files. If it has not seen all, it
// returns where it stopped.
func (s *shell) walk(dir string, visit func(path string, d fs.DirEntry) error) (stop string) {
	if !known(dir) {
		return dir
	}
	n := 0
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if n++; n > maxWalked || n%64 == 0 && time.Now().After(s.r.until) {
			stop = path
			return errMany
		}
		if err != nil {
			return nil
		}
		if d.IsDir() && d.Name() == ".git" && path != dir {
			return fs.SkipDir
		}
		err = visit(path, d)
		if errors.Is(err, errMany) {
			stop = path
		}
		return err
	})
	return stop
}

// finder is a find command: where it looks, and a test with actions.
type finder struct {
	s          *shell
	roots      []string
	tests      []string
	least      int
	most       int
	name       string // the first -name, for when there are too many files
	acts       []*action
	path       string // of the file at hand, as find prints it
	real       string
	entry      fs.DirEntry
	pruned     bool
	printsSome bool
}

// An action is -print, -delete or -exec with the names that come to it.
type action struct {
	do    func(in *shell, names []string) // nil: it prints them
	names []string
}

type test func(f *finder) bool

func (s *shell) find(_ string, args []string) string {
	f := &finder{s: s, most: 1 << 30}
	for len(args) > 0 && slices.Contains([]string{"-L", "-H", "-P", "-E"}, args[0]) {
		args = args[1:]
	}
	n := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") || a == "!" || a == "(" })
	if n < 0 {
		n = len(args)
	}
	f.roots, f.tests = orHere(args[:n]), args[n:]
	for _, r := range f.roots {
		if !known(r) || !known(s.dir) {
			return unknown
		}
	}
	expr := f.or()
	found := &action{}
	if !f.printsSome {
		inner := expr
		expr = func(f *finder) bool {
			ok := inner(f)
			if ok {
				found.names = append(found.names, f.path)
			}
			return ok
		}
	}
	var rest []string
	for _, root := range f.roots {
		if stop := f.look(root, expr); stop != "" {
			rest = append(rest, unseen(root, repo.Absolute(f.s.dir, root), stop, f.name)...)
		}
	}
	for _, a := range append(f.acts, found) {
		a.names = s.existing(append(a.names, rest...))
	}
	in := s.sub()
	in.in = unknown
	for _, a := range f.acts {
		if a.do == nil {
			found = a
			continue
		}
		a.do(in, a.names)
	}
	return printed(found.names)
}

// look visits one root.
func (f *finder) look(root string, expr test) (stop string) {
	real := repo.Absolute(f.s.dir, root)
	return f.s.walk(real, func(path string, d fs.DirEntry) error {
		rel, _ := filepath.Rel(real, path)
		depth := 0
		f.path = root
		if rel != "." {
			depth = strings.Count(rel, string(filepath.Separator)) + 1
			f.path = strings.TrimSuffix(root, "/") + "/" + filepath.ToSlash(rel)
		}
		f.real, f.entry, f.pruned = path, d, false
		if depth >= f.least && depth <= f.most {
			expr(f)
		}
		if d.IsDir() && (f.pruned || depth >= f.most) {
			return fs.SkipDir
		}
		return nil
	})
}
