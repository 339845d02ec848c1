package shellwrites

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
		if len(args) > 1 && args[0] == "-m" {
			if _, formats := formatters[args[1]]; formats || args[1] == "ruff" {
				return s.program(args[1:])
			}
		}
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
		"yq": writes(func(s *shell, _ string, args []string) {
			ops := operands(args, "-p", "-o", "--input-format", "--output-format", "--from-file", "--arg", "--argjson")
			if len(ops) > 0 && contains([]string{"e", "eval", "ea", "eval-all"}, ops[0]) {
				ops = ops[1:]
			}
			if len(ops) > 1 && (hasFlag(args, 'i') || has(args, "--inplace", "--in-place")) {
				s.write(ops[1:]...)
			}
		}),
		"cargo": writes(func(s *shell, _ string, args []string) {
			if len(args) > 0 && args[0] == "fmt" && !contains(args, "--check") {
				s.add(anyPath+"/"+anyName+".rs", Target{There: true})
			}
		}),
		"terraform": writes(func(s *shell, _ string, args []string) {
			if len(args) > 0 && args[0] == "fmt" && !has(args, "-check", "--check", "-write=false") && len(operands(args[1:])) == 0 {
				s.add(anyName+".tf", Target{There: true})
			}
		}),
		"biome": writes(func(s *shell, _ string, args []string) {
			if len(args) > 0 && has(args, "--write", "--apply", "--fix", "--apply-unsafe") {
				s.format(nil, args[1:])
			}
		}),
		"go": writes(func(s *shell, _ string, args []string) {
			if len(args) > 0 && args[0] == "build" {
				if i := slices.Index(args, "-o"); i > 0 && i+1 < len(args) && !isDir(join(s.dir, args[i+1])) {
					s.write(args[i+1])
				}
			}
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
	if len(flags) > 0 && !has(args, flags...) || len(flags) == 0 && has(args, "--check", "--check-only", "--diff", "-c") {
		return
	}
	for _, p := range operands(args) {
		p = strings.NewReplacer("**", anyPath, "*", anyName).Replace(p) // they read patterns themselves
		s.add(p, Target{Tree: true, There: true})
	}
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
