package shellwrites

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/expand"

	"github.com/tasklock/tasklock/internal/repo"
)

// Programs whose output others read.

// printed is a list of names as programs print it.
func printed(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, "\n") + "\n"
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
	var out strings.Builder
	for _, p := range orHere(operands(args, "-I", "-w")) {
		if !known(p) || !known(s.dir) {
			return unknown
		}
		if !repo.IsDir(repo.Absolute(s.dir, p)) || hasFlag(args, 'd') {
			out.WriteString(p + "\n")
			continue
		}
		list, _ := os.ReadDir(repo.Absolute(s.dir, p))
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

// filter is for programs that print some of the lines that they read. If it cannot tell
// which, it returns all.
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
