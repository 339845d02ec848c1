package shellwrites

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"

	"github.com/tasklock/tasklock/internal/repo"
)

// What belongs to the shell itself: folders, scripts, parameters.

func silent(*shell, string, []string) string { return "" }

func each(list []string, f func(string) string) string {
	var b strings.Builder
	for _, e := range list {
		if known(e) {
			e = f(e)
		}
		b.WriteString(e + "\n")
	}
	return b.String()
}

func (s *shell) changeDir(name string, args []string) string {
	ops, was := operands(args), s.dir
	switch {
	case name == "popd":
		s.dir = unknown
		if n := len(s.dirs); n > 0 {
			s.dir, s.dirs = s.dirs[n-1], s.dirs[:n-1]
		}
	case len(ops) == 0:
		s.dir = s.Get("HOME").String()
	case ops[0] == "-":
		s.dir = s.Get("OLDPWD").String()
	default:
		s.dir = repo.Absolute(s.dir, ops[0])
	}
	if name == "pushd" {
		s.dirs = append(slices.Clip(s.dirs), was)
	}
	s.vars["OLDPWD"] = text(was)
	return ""
}

// interpreter follows sh -c, a script that comes on standard input, or one in a file.
func (s *shell) interpreter(_ string, args []string) string {
	in := s.sub()
	valued := []string{"-o", "-O", "--rcfile", "--init-file"} // -euo pipefail
	flags, args := getopt(args, true, valued...)
	for len(args) > 0 && strings.HasPrefix(args[0], "+") { // +o errexit switches something off; +c is -c
		minus := "-" + strings.ReplaceAll(args[0], "n", "")
		more, rest := getopt(append([]string{minus}, args[1:]...), true, valued...)
		flags, args = append(flags, more...), rest
	}
	switch {
	case flags.has("-n"): // only checks
		return ""
	case flags.has("-c") && len(args) > 0:
		in.name, in.params = "bash", nil
		if len(args) > 1 {
			in.name, in.params = args[1], args[2:]
		}
		return in.script(args[0])
	case len(args) > 0 && args[0] != "-" && !flags.has("-s"):
		return in.scriptFile(args[0], args[1:])
	}
	in.params = args
	src := in.in
	in.in = unknown
	if !known(src) {
		return unknown
	}
	return in.script(src)
}

func (s *shell) source(_ string, args []string) string {
	if len(args) == 0 {
		return ""
	}
	was := s.params
	if len(args) > 1 {
		s.params = args[1:]
	}
	defer func() { s.params = was }()
	return s.follow(args[0])
}

// executable follows a script of the repository that is started by its path.
func (s *shell) executable(path string, args []string) string {
	head, _, _ := strings.Cut(s.file(path), "\n")
	if !strings.HasPrefix(head, "#!") || !regexp.MustCompile(`\b(ba|da|z|k)?sh\b`).MatchString(head) {
		return unknown
	}
	return s.sub().scriptFile(path, args)
}

func (s *shell) scriptFile(path string, args []string) string {
	s.name, s.params = path, args
	return s.follow(path)
}

// follow reads a script: of <(…), or a file of the repository around us.
func (s *shell) follow(path string) string {
	if strings.HasPrefix(path, procMark) {
		return s.script(s.content(path))
	}
	if path == "/dev/stdin" {
		return s.script(s.in)
	}
	root := rootOf(s.dir)
	if root == "" {
		root = s.dir
	}
	if rel, err := filepath.Rel(root, repo.Absolute(s.dir, path)); err != nil || !filepath.IsLocal(rel) {
		return unknown
	}
	src := s.file(path)
	if !known(src) || strings.Contains(src, "\x00") {
		return unknown
	}
	return s.script(src)
}

// rootOf is the nearest folder with a repository, at or above dir.
func rootOf(dir string) string {
	for filepath.IsAbs(dir) {
		if repo.Exists(filepath.Join(dir, ".git")) {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return ""
}

func (s *shell) set(_ string, args []string) string {
	if rest, ok := afterDashes(args); ok {
		s.params = rest
	} else if len(args) > 0 && args[0] != "" && args[0][0] != '-' && args[0][0] != '+' {
		s.params = args
	}
	return ""
}

func (s *shell) shift(_ string, args []string) string {
	if n := number(args, 1); n <= len(s.params) { // a shell shifts all or nothing
		s.params = s.params[n:]
	}
	return ""
}

// read takes a line of standard input into variables, mapfile all of them.
func (s *shell) read(name string, args []string) string {
	ops := operands(args, "-d", "-u", "-t", "-n", "-N", "-p", "-i")
	if name != "read" {
		if ops = operands(args, "-d", "-u", "-n", "-O", "-s", "-c", "-C"); len(ops) == 0 {
			ops = []string{"MAPFILE"}
		}
		_ = s.Set(ops[0], expand.Variable{Set: true, Kind: expand.Indexed, List: strings.Split(strings.TrimSuffix(s.in, "\n"), "\n")})
		return ""
	}
	if arrays := values(args, 'a', ""); len(arrays) > 0 {
		_ = s.Set(arrays[0], expand.Variable{Set: true, Kind: expand.Indexed, List: strings.Fields(s.in)})
		return ""
	}
	line, rest, _ := strings.Cut(s.in, "\n")
	if known(s.in) {
		s.in = rest
	}
	s.readInto(ops, line, hasFlag(args, 'r'))
	return ""
}

func (s *shell) trap(_ string, args []string) string {
	if ops := operands(args); len(ops) > 1 {
		s.sub().script(ops[0])
	}
	return ""
}

// tasklock notes its own calls, and follows what it runs.
func (s *shell) tasklock(_ string, args []string) string {
	s.r.Calls = append(s.r.Calls, args)
	if rest, ok := afterDashes(args); ok && (slices.Contains(args, "run") || slices.Contains(args, "land")) {
		return s.call(rest)
	}
	return unknown
}
