package shellwrites

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
)

// program follows one program by its arguments, and returns what it prints
// where that can be told.
func (s *shell) program(args []string) string {
	path := args[0]
	name := base(path)
	args = args[1:]
	if run, ok := programs[name]; ok {
		return run(s, name, args)
	}
	if strings.Contains(path, "/") {
		return s.executable(path, args)
	}
	if flags, ok := formatters[name]; ok {
		s.format(flags, args)
	}
	if family, _, _ := strings.Cut(name, "."); strings.HasPrefix(family, "python") {
		s.code(python, args, "-c")
	}
	return unknown
}

var programs map[string]func(s *shell, name string, args []string) string

// writes makes a program of one that prints nothing that matters.
func writes(f func(s *shell, name string, args []string)) func(*shell, string, []string) string {
	return func(s *shell, name string, args []string) string {
		f(s, name, args)
		return unknown
	}
}

func init() { // the programs call each other
	programs = map[string]func(*shell, string, []string) string{
		"cd": (*shell).changeDir, "pushd": (*shell).changeDir, "popd": (*shell).changeDir,
		"eval": func(s *shell, _ string, args []string) string { return s.script(strings.Join(args, " ")) },
		"bash": (*shell).interpreter, "sh": (*shell).interpreter, "zsh": (*shell).interpreter, "dash": (*shell).interpreter, "ksh": (*shell).interpreter,
		"source": (*shell).source, ".": (*shell).source,
		"set": (*shell).set, "shift": (*shell).shift, "read": (*shell).read, "mapfile": (*shell).read, "readarray": (*shell).read,
		"trap": func(s *shell, _ string, args []string) string {
			if ops := operands(args); len(ops) > 1 {
				s.sub().script(ops[0])
			}
			return ""
		},
		"tasklock": (*shell).tasklock, "tasklock-plus": (*shell).tasklock,
		"xargs": (*shell).xargs, "find": (*shell).find, "parallel": (*shell).parallel,
		"git":         (*shell).git,
		"apply_patch": writes((*shell).applyPatch), "patch": writes((*shell).patch),

		"true": silent, "false": silent, ":": silent, "test": silent, "[": silent, "exit": silent, "return": silent, "sleep": silent, "wait": silent,
		"echo": (*shell).echo, "printf": (*shell).printf, "cat": (*shell).cat, "ls": (*shell).ls,
		"pwd":      func(s *shell, _ string, _ []string) string { return s.dir + "\n" },
		"dirname":  func(s *shell, _ string, args []string) string { return each(args, filepath.Dir) },
		"basename": (*shell).basename,
		"realpath": func(s *shell, _ string, args []string) string {
			return each(operands(args), func(p string) string { return join(s.dir, p) })
		},
		"readlink": func(s *shell, _ string, args []string) string {
			return each(operands(args), func(p string) string { return join(s.dir, p) })
		},
		"head": (*shell).filter, "tail": (*shell).filter, "sort": (*shell).filter, "uniq": (*shell).filter, "tr": (*shell).filter, "cut": (*shell).filter,
		"grep": (*shell).grep, "egrep": (*shell).grep, "fgrep": (*shell).grep, "rg": (*shell).grep, "ag": (*shell).grep, "ack": (*shell).grep,
		"tee": (*shell).tee,
		"rm":  writes((*shell).remove), "rmdir": writes((*shell).remove), "unlink": writes((*shell).remove), "shred": writes((*shell).remove), "trash": writes((*shell).remove),
		"touch": writes((*shell).touch), "truncate": writes((*shell).touch), "mkdir": writes((*shell).mkdir), "mktemp": writes((*shell).mktemp),
		"chmod": writes((*shell).chmod), "chown": writes((*shell).chmod), "chgrp": writes((*shell).chmod), "setfacl": writes((*shell).chmod),
		"cp": writes((*shell).copies), "mv": writes((*shell).copies), "install": writes((*shell).copies), "ln": writes((*shell).copies), "rsync": writes((*shell).copies),
		"tar": writes((*shell).tar), "bsdtar": writes((*shell).tar), "unzip": writes((*shell).unzip), "zip": writes((*shell).zip),
		"gzip": writes((*shell).compress), "gunzip": writes((*shell).compress), "bzip2": writes((*shell).compress), "bunzip2": writes((*shell).compress),
		"xz": writes((*shell).compress), "unxz": writes((*shell).compress), "zstd": writes((*shell).compress),
		"split": writes((*shell).split), "csplit": writes((*shell).split),
		"dd": writes((*shell).dd), "sponge": writes(func(s *shell, _ string, args []string) { s.write(operands(args)...) }),
		"curl": writes((*shell).curl), "wget": writes((*shell).curl), "flock": writes((*shell).flock),
		"sqlite3": writes((*shell).sqlite), "script": writes(func(s *shell, _ string, args []string) {
			for _, c := range values(args, 'c', "--command") {
				s.sub().script(c)
			}
			s.write(operands(args, "-c", "--command")...)
		}),
		"sed": (*shell).sed, "gsed": (*shell).sed, "awk": (*shell).awk, "gawk": (*shell).awk, "mawk": (*shell).awk, "nawk": (*shell).awk,
		"vim": writes((*shell).editor), "vi": writes((*shell).editor), "nvim": writes((*shell).editor), "ex": writes((*shell).editor), "ed": writes((*shell).editor),
		"perl": writes((*shell).perl), "ruby": writes((*shell).perl),
		"node": writes(func(s *shell, _ string, args []string) {
			s.code(javascript, args, "-e", "--eval", "-p", "-pe", "--print")
		}),
		"nodejs": writes(func(s *shell, _ string, args []string) {
			s.code(javascript, args, "-e", "--eval", "-p", "-pe", "--print")
		}),
		"bun": writes(func(s *shell, _ string, args []string) { s.code(javascript, args, "-e", "--eval", "-p", "--print") }),
		"deno": writes(func(s *shell, _ string, args []string) {
			if len(args) > 1 && args[0] == "eval" {
				s.code(javascript, append([]string{"-e"}, operands(args[1:])...), "-e")
			}
		}),
		"go": writes(func(s *shell, _ string, args []string) {
			if len(args) > 1 && args[0] == "fmt" {
				for _, p := range operands(args[1:]) {
					s.tree(strings.TrimSuffix(strings.TrimSuffix(p, "..."), "/"))
				}
			}
		}),
		"ruff": writes(func(s *shell, _ string, args []string) {
			if len(args) > 0 && (args[0] == "format" && !has(args, "--check", "--diff") || args[0] == "check" && has(args, "--fix")) {
				s.tree(operands(args[1:])...)
			}
		}),
	}
}

// formatters write the files they are given: with one of these flags, or, where
// there is none, unless they only look.
var formatters = map[string][]string{
	"gofmt": {"-w"}, "gofumpt": {"-w"}, "goimports": {"-w"}, "prettier": {"--write", "-w"}, "clang-format": {"-i"}, "shfmt": {"-w"},
	"eslint": {"--fix"}, "stylelint": {"--fix"}, "rustfmt": nil, "black": nil, "isort": nil, "dos2unix": nil, "unix2dos": nil,
}

func (s *shell) format(flags, args []string) {
	if len(flags) > 0 && !has(args, flags...) || len(flags) == 0 && has(args, "--check", "--diff", "-c") {
		return
	}
	for _, p := range operands(args) {
		p = strings.NewReplacer("**", anyPath, "*", anyName).Replace(p) // they read patterns themselves
		s.tree(p)
	}
}

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
		s.dir = join(s.dir, ops[0])
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
	given := false
	for len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+') {
		flag := args[0]
		args = args[1:]
		if flag == "-" || flag == "--" || flag == "-s" {
			break
		}
		if strings.HasPrefix(flag, "--") {
			if flag == "--rcfile" || flag == "--init-file" {
				args = args[min(1, len(args)):]
			}
			continue
		}
		if flag[0] == '-' && strings.Contains(flag, "n") && !strings.Contains(flag, "c") { // only checks
			return ""
		}
		given = given || strings.Contains(flag, "c")
		if strings.HasSuffix(flag, "o") || strings.HasSuffix(flag, "O") { // -euo pipefail
			args = args[min(1, len(args)):]
		}
	}
	switch {
	case given && len(args) > 0:
		in.name, in.params = "bash", nil
		if len(args) > 1 {
			in.name, in.params = args[1], args[2:]
		}
		return in.script(args[0])
	case len(args) > 0 && args[0] != "-" && !given:
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
	if rel, err := filepath.Rel(root, join(s.dir, path)); err != nil || !filepath.IsLocal(rel) {
		return unknown
	}
	src := s.file(path)
	if !known(src) || bytes.IndexByte([]byte(src), 0) >= 0 {
		return unknown
	}
	return s.script(src)
}

// rootOf is the nearest folder with a repository, at or above dir.
func rootOf(dir string) string {
	for filepath.IsAbs(dir) {
		if exists(filepath.Join(dir, ".git")) {
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
	n := 1
	if len(args) > 0 && len(args[0]) == 1 {
		n = int(args[0][0] - '0')
	}
	s.params = s.params[min(max(n, 0), len(s.params)):]
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

// tasklock notes its own calls, and follows what it runs.
func (s *shell) tasklock(_ string, args []string) string {
	s.r.Calls = append(s.r.Calls, args)
	if rest, ok := afterDashes(args); ok && contains(args, "run") {
		return s.call(rest)
	}
	return unknown
}

func (s *shell) echo(_ string, args []string) string {
	for len(args) > 0 && len(args[0]) > 1 && strings.Trim(args[0], "neE") == "-" {
		if strings.Contains(args[0], "e") {
			return s.printf("", append([]string{"%b\n"}, strings.Join(args[1:], " ")))
		}
		args = args[1:]
	}
	return strings.Join(args, " ") + "\n"
}

func (s *shell) printf(_ string, args []string) string {
	if len(args) > 2 && args[0] == "-v" {
		s.vars[args[1]] = text(s.printf("", args[2:]))
		return ""
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || regexp.MustCompile(`%[^a-z]*([0-9]{4}|\*)`).MatchString(args[0]) {
		return unknown
	}
	var out strings.Builder
	format, rest := args[0], args[1:]
	for turn := 0; turn == 0 || len(rest) > 0 && turn < maxTurns; turn++ {
		text, n, err := expand.Format(nil, format, rest)
		if err != nil {
			return unknown
		}
		if out.WriteString(text); n == 0 {
			break
		}
		rest = rest[min(n, len(rest)):]
	}
	return out.String()
}

func (s *shell) cat(_ string, args []string) string {
	ops := operands(args)
	if len(ops) == 0 {
		return s.in
	}
	var out strings.Builder
	for _, f := range ops {
		out.WriteString(s.content(f))
	}
	return out.String()
}

func (s *shell) ls(_ string, args []string) string {
	if hasFlag(args, 'l', 'R') {
		return unknown
	}
	ops := operands(args, "-I", "-w")
	if len(ops) == 0 {
		ops = []string{"."}
	}
	var out strings.Builder
	for _, p := range ops {
		if !known(p) || !known(s.dir) {
			return unknown
		}
		if !isDir(join(s.dir, p)) || hasFlag(args, 'd') {
			out.WriteString(p + "\n")
			continue
		}
		list, _ := os.ReadDir(join(s.dir, p))
		if len(list) > maxFields {
			return unknown
		}
		for _, e := range list {
			if !strings.HasPrefix(e.Name(), ".") || hasFlag(args, 'a', 'A') {
				out.WriteString(e.Name() + "\n")
			}
		}
	}
	return out.String()
}

func (s *shell) basename(_ string, args []string) string {
	ops := operands(args, "-s")
	if len(ops) == 2 && !hasFlag(args, 'a') {
		return each(ops[:1], func(p string) string { return strings.TrimSuffix(filepath.Base(p), ops[1]) })
	}
	return each(ops, filepath.Base)
}

// filter is for programs that print lines of what they read: those that could be.
func (s *shell) filter(name string, args []string) string {
	if name == "sort" {
		s.write(values(args, 'o', "--output")...)
	}
	ops := operands(args, "-n", "-c", "-k", "-t", "-o", "-d", "-f", "-S", "-T", "--output")
	if name == "uniq" && len(ops) > 1 {
		s.write(ops[1])
	}
	if name == "tr" {
		switch strings.Join(args, "\x00") {
		case "\n\x00\\0", "\\n\x00\\0", "\\n\x00 ", "\\0\x00\\n", " \x00\\n", "-d\x00\\r":
			return s.in
		}
		return unknown
	}
	if name == "cut" {
		return unknown
	}
	out := s.in
	if len(ops) > 0 {
		out = s.content(ops[0])
	}
	if name == "head" || name == "tail" {
		return ends(name, out, args)
	}
	return out
}

// ends are the first lines of a text, or the last.
func ends(name, text string, args []string) string {
	n := values(args, 'n', "--lines")
	for _, a := range args {
		if len(a) > 1 && a[0] == '-' && strings.Trim(a[1:], "0123456789") == "" {
			n = []string{a[1:]}
		}
	}
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	count := number(n, 10)
	if len(n) > 0 && strings.Trim(n[0], "0123456789") != "" || hasFlag(args, 'c', 'f') || count >= len(lines) {
		return text
	}
	if name == "tail" {
		lines = lines[len(lines)-count:]
	}
	return strings.TrimSuffix(strings.Join(lines[:count], ""), "\n") + "\n"
}

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
		if dir := join(s.dir, p); name == "rm" && isDir(dir) && known(dir) && !hasFlag(args, 'r', 'R', 'd') && !has(args, "--recursive", "--dir") {
			if strings.HasSuffix(p, "/") || !isLink(dir) {
				continue // it refuses
			}
		}
		s.gone(p)
	}
}

func isLink(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode()&os.ModeSymlink != 0
}

func (s *shell) touch(_ string, args []string) {
	for _, p := range operands(args, "-s", "-r", "-d", "-t", "--size", "--reference", "--date", "-o") {
		if !(hasFlag(args, 'c') || has(args, "--no-create")) || exists(join(s.dir, p)) {
			s.write(p)
		}
	}
}

func (s *shell) mkdir(_ string, args []string) {
	for _, p := range operands(args, "-m", "--mode") {
		if !isDir(join(s.dir, p)) { // a folder that is there stays as it is
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
	if name == "curl" {
		s.write(values(args, 'o', "--output")...)
		if hasFlag(args, 'O') || has(args, "--remote-name") {
			for _, u := range operands(args, "-o", "-H", "-d", "-X", "-u") {
				if _, rest, ok := strings.Cut(u, "://"); ok && strings.Contains(rest, "/") {
					s.write(filepath.Base(rest))
				}
			}
		}
		return
	}
	out := values(args, 'O', "--output-document")
	s.write(out...)
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
	if !exists(join(s.dir, ops[0])) {
		s.write(ops[0])
	}
	if len(ops) > 1 && len(scripts) == 0 {
		s.sub().call(ops[1:])
	}
}

// changing finds SQL, and commands of sqlite3, that change a database.
var changing = regexp.MustCompile(`(?im)(^|;)\s*(insert|update|delete|drop|create|alter|replace|vacuum|reindex|with\b.*\b(insert|update|delete)|pragma\s+\w+\s*=|\.(restore|import|read|recover))\b`)

func (s *shell) sqlite(_ string, args []string) {
	ops := operands(args, "-cmd", "-separator", "-newline", "-nullvalue", "-init", "-vfs")
	if len(ops) == 0 || has(args, "-readonly") {
		return
	}
	sql := strings.Join(ops[1:], "\n") + "\n" + s.in
	if changing.MatchString(sql) {
		s.write(ops[0])
	}
	if m := regexp.MustCompile(`(?m)^\s*\.(?:output|once|backup|save)\s+(\S+)`).FindStringSubmatch(sql); m != nil && m[1] != "stdout" {
		s.write(m[1])
	}
}
