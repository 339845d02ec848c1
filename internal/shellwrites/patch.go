package shellwrites

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/tasklock/tasklock/internal/repo"
)

// Patched returns the files that a patch in the form of Codex names.
func Patched(text, dir string) (out []Target) {
	for line := range strings.Lines(text) {
		for _, head := range []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "} {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), head); ok && name != "" {
				out = append(out, Target{Path: repo.Absolute(dir, name)})
			}
		}
	}
	return out
}

func (s *shell) applyPatch(_ string, args []string) {
	for _, t := range Patched(s.in+"\n"+strings.Join(args, "\n"), s.dir) {
		s.add(t.Path, t)
	}
}

var oldOrNew = compiled(`(?m)^(?:---|\+\+\+) ([^\t\n]+)|^rename (?:from|to) (.+)$|^diff --git "?a/(.+?)"? "?b/(.+?)"?$`)

// patchedFiles are the files that a unified diff names, without so many parts at
// the beginning.
func patchedFiles(diff string, strip int) (out []string) {
	if !known(diff) {
		return nil
	}
	for _, m := range oldOrNew().FindAllStringSubmatch(diff, -1) {
		switch {
		case m[1] != "":
			name := strings.TrimSpace(m[1])
			parts := strings.Split(name, "/")
			if name == "/dev/null" || len(parts) <= strip {
				continue
			}
			out = append(out, filepath.Join(parts[strip:]...))
		case m[2] != "":
			out = append(out, m[2])
		default:
			out = append(out, m[3], m[4])
		}
	}
	return out
}

func number(list []string, otherwise int) int {
	if len(list) > 0 {
		if n, err := strconv.Atoi(list[len(list)-1]); err == nil && n >= 0 {
			return n
		}
	}
	return otherwise
}

func (s *shell) patch(_ string, args []string) {
	if has(args, "--dry-run") || hasFlag(args, 'C') {
		return
	}
	ops := operands(args, "-i", "-o", "-d", "-r", "-p", "-F", "-D", "-B", "-z", "--input", "--output", "--directory")
	in := s.inFolder(last(values(args, 'd', "--directory"), ""))
	diff := s.in
	if files := append(values(args, 'i', "--input"), ops[min(1, len(ops)):]...); len(files) > 0 {
		diff = in.content(files[0])
	}
	if out := values(args, 'o', "--output"); len(out) > 0 {
		in.write(out...)
		return
	}
	if len(ops) > 0 {
		in.write(ops[0])
		return
	}
	strip := number(values(args, 'p', "--strip"), -1)
	names := patchedFiles(diff, max(strip, 0))
	for _, n := range names {
		if strip < 0 { // it looks for the name in all lengths
			n = filepath.Base(n)
		}
		if repo.Exists(repo.Absolute(in.dir, n)) || strings.Contains(diff, "/dev/null") {
			in.write(n)
		}
	}
}
