package shellwrites

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/repo"
)

// Programs that copy or move files.

// copies notes where files go, and for mv where they were.
func (s *shell) copies(name string, args []string) {
	if name == "rsync" && (hasFlag(args, 'n') || has(args, "--dry-run", "--list-only")) {
		return
	}
	ops := operands(args, "-t", "--target-directory", "-m", "-o", "-g", "-S", "--suffix", "--mode", "--owner", "--group", "-e", "--exclude", "--include")
	if name == "install" && (hasFlag(args, 'd') || has(args, "--directory")) {
		s.mkdir("", ops)
		return
	}
	to := ""
	if given := values(args, 't', "--target-directory"); len(given) > 0 && name != "rsync" {
		to = strings.TrimSuffix(given[len(given)-1], "/") + "/"
	} else if len(ops) > 1 {
		to, ops = ops[len(ops)-1], ops[:len(ops)-1]
	} else if name == "ln" && len(ops) == 1 {
		to = "./"
	}
	if name == "mv" && !s.same(ops, to) {
		s.gone(ops...)
	}
	if to == "" || !known(to) || strings.Contains(to, ":") && name == "rsync" {
		return
	}
	if name == "rsync" && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--delete") }) {
		s.add(to, Target{Tree: true, Gone: true})
	}
	into := strings.HasSuffix(to, "/") || repo.IsDir(repo.Absolute(s.dir, to)) && !has(args, "-T", "--no-target-directory") && !(name == "ln" && hasFlag(args, 'n'))
	for _, from := range ops {
		place := to
		if into && !(name == "rsync" && strings.HasSuffix(from, "/")) && filepath.Base(from) != "." {
			place = repo.Absolute(to, filepath.Base(from))
		}
		s.copied(name, from, place, args)
	}
}

// same reports whether a file would be moved to itself.
func (s *shell) same(from []string, to string) bool {
	return len(from) == 1 && repo.Absolute(s.dir, from[0]) == repo.Absolute(s.dir, to)
}

// copied notes what a source becomes; for a folder, what each file in it becomes.
func (s *shell) copied(name, from, place string, args []string) {
	keeps := hasFlag(args, 'n') || has(args, "--no-clobber", "--ignore-existing", "--update=none")
	source := repo.Absolute(s.dir, from)
	note := func(place string) {
		if !keeps || !repo.Exists(repo.Absolute(s.dir, place)) {
			s.add(place, Target{Gone: name == "mv"}) // which replaces a link that is there
		}
	}
	if name == "ln" { // of a link that is there the link is replaced
		s.add(place, Target{Gone: true})
		return
	}
	if strings.Contains(from, anyName) || strings.Contains(from, anyPath) || !known(from) || !repo.IsDir(source) {
		note(place)
		return
	}
	if name == "mv" {
		s.tree(place)
		return
	}
	if name == "install" || !hasFlag(args, 'r', 'R', 'a') && !has(args, "--recursive", "--archive") {
		return // a folder is left out
	}
	files, all := s.filesIn(source)
	if !all {
		s.tree(place)
		return
	}
	if !repo.Exists(repo.Absolute(s.dir, place)) {
		s.write(place)
	}
	for _, f := range files {
		note(filepath.Join(place, f))
	}
}

// filesIn lists the files below a folder, by their names from there.
func (s *shell) filesIn(dir string) (names []string, all bool) {
	stop := s.walk(dir, func(path string, d fs.DirEntry) error {
		if !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, rel)
		}
		if len(names) > maxListed {
			return errMany
		}
		return nil
	})
	return names, stop == ""
}
