package shellwrites

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/repo"
)

// Programs that write the files that their arguments name.

func (s *shell) tee(_ string, args []string) string {
	s.write(operands(args)...)
	return s.in
}

func (s *shell) remove(name string, args []string) {
	ops := operands(args, "-n", "-s", "--iterations", "--size")
	if name == "shred" && !hasFlag(args, 'u') {
		s.write(ops...)
		return
	}
	for _, p := range ops {
		if dir := repo.Absolute(s.dir, p); name == "rm" && repo.IsDir(dir) && known(dir) && !hasFlag(args, 'r', 'R', 'd') && !has(args, "--recursive", "--dir") {
			if strings.HasSuffix(p, "/") || !repo.IsLink(dir) {
				continue // it refuses
			}
		}
		s.gone(p)
	}
}

func (s *shell) touch(_ string, args []string) {
	for _, p := range operands(args, "-s", "-r", "-d", "-t", "--size", "--reference", "--date", "-o") {
		if !(hasFlag(args, 'c') || has(args, "--no-create")) || repo.Exists(repo.Absolute(s.dir, p)) {
			s.write(p)
		}
	}
}

func (s *shell) mkdir(_ string, args []string) {
	for _, p := range operands(args, "-m", "--mode") {
		if !repo.IsDir(repo.Absolute(s.dir, p)) { // a folder that is there stays as it is
			s.write(p)
		}
	}
}

func (s *shell) mktemp(_ string, args []string) {
	for _, p := range operands(args, "-p", "--tmpdir", "--suffix") {
		if strings.Contains(p, "/") || !hasFlag(args, 't') {
			s.write(strings.ReplaceAll(p, "XXX", anyName))
		}
	}
}

func (s *shell) chmod(name string, args []string) {
	ops := operands(args, "--reference", "--from", "-m", "-x")
	mode := ""
	if name == "chmod" { // a mode may look like a flag
		for i, a := range args {
			if len(a) > 1 && a[0] == '-' && strings.Trim(a[1:], "rwxXst") == "" {
				mode, ops = a, operands(slices.Delete(slices.Clone(args), i, i+1))
				break
			}
		}
	}
	if mode == "" && !has(args, "--reference") && name != "setfacl" && len(ops) > 0 {
		ops = ops[1:]
	}
	if hasFlag(args, 'R') || has(args, "--recursive") {
		s.tree(ops...)
		return
	}
	s.write(ops...)
}

func (s *shell) dd(_ string, args []string) {
	for _, a := range args {
		if file, ok := strings.CutPrefix(a, "of="); ok {
			s.write(file)
		}
	}
}

func (s *shell) curl(name string, args []string) {
	if name == "wget" {
		s.write(values(args, 'O', "--output-document")...)
		return
	}
	s.write(values(args, 'o', "--output")...)
	if !hasFlag(args, 'O') && !has(args, "--remote-name") {
		return
	}
	for _, u := range operands(args, "-o", "-H", "-d", "-X", "-u") {
		if _, rest, ok := strings.Cut(u, "://"); ok && strings.Contains(rest, "/") {
			s.write(filepath.Base(rest))
		}
	}
}

func (s *shell) flock(_ string, args []string) {
	scripts := values(args, 'c', "--command")
	for _, c := range scripts {
		s.sub().script(c)
	}
	ops := carried(args, []string{"-w", "-E", "--timeout"})
	if len(ops) == 0 {
		return
	}
	if !repo.Exists(repo.Absolute(s.dir, ops[0])) {
		s.write(ops[0])
	}
	if len(ops) > 1 && len(scripts) == 0 {
		s.sub().call(ops[1:])
	}
}

// changing finds SQL, and commands of sqlite3, that change a database.
var changing = compiled(`(?im)(^|;)\s*(insert|update|delete|drop|create|alter|replace|vacuum|reindex|with\b.*\b(insert|update|delete)|pragma\s+\w+\s*=|\.(restore|import|read|recover))\b`)

func (s *shell) sqlite(_ string, args []string) {
	ops := operands(args, "-cmd", "-separator", "-newline", "-nullvalue", "-init", "-vfs")
	if len(ops) == 0 || has(args, "-readonly") {
		return
	}
	sql := strings.Join(ops[1:], "\n") + "\n" + s.in
	if changing().MatchString(sql) {
		s.write(ops[0])
	}
	if m := regexp.MustCompile(`(?m)^\s*\.(?:output|once|backup|save)\s+(\S+)`).FindStringSubmatch(sql); m != nil && m[1] != "stdout" {
		s.write(m[1])
	}
}

// typescript is the program script, which notes a session in a file.
func (s *shell) typescript(_ string, args []string) {
	for _, c := range values(args, 'c', "--command") {
		s.sub().script(c)
	}
	s.write(operands(args, "-c", "--command")...)
}
