package shellwrites

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/repo"
)

// Commands that run other commands on names (xargs, parallel), and searches that print
// names (grep -l).

// onEach follows a command once for each name, which replaces the mark.
func (s *shell) onEach(names, cmd []string, mark string) {
	for i, name := range names {
		if s.r.steps++; i > maxListed || s.r.over() {
			s.r.unsure("a command runs on too many names")
			return
		}
		words := slices.Clone(cmd)
		for j, w := range words {
			words[j] = strings.ReplaceAll(w, mark, name)
		}
		s.sub().call(words)
	}
}

// onAll follows a command once, with all names in the place of the mark.
func (s *shell) onAll(names, cmd []string, mark string) {
	if len(names) == 0 {
		return
	}
	i := slices.Index(cmd, mark)
	if i < 0 {
		return
	}
	words := slices.Concat(cmd[:i], names, cmd[i+1:])
	s.sub().call(words[:min(len(words), maxFields)])
}

// xargs runs a command on the names that it reads.
func (s *shell) xargs(_ string, args []string) string {
	flags, args := getopt(args, true, "-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "-i=", "-e=", "-l=",
		"--arg-file", "--delimiter", "--max-args", "--max-procs")
	from := s.in
	if files := flags.values("-a", "--arg-file"); files != nil {
		from = s.content(last(files, ""))
	}
	marks := flags.values("-I", "-i", "--replace")
	if len(args) == 0 {
		args = []string{"echo"}
	}
	names := split(from, marks != nil || flags.has("-0", "--null", "-d", "--delimiter"))
	in := s.sub()
	in.in = unknown
	switch {
	case marks != nil:
		in.onEach(names, args, cmp.Or(last(marks, ""), "{}"))
	case last(flags.values("-n", "--max-args"), "") == "1":
		in.onEach(names, append(slices.Clone(args), "{}"), "{}")
	case len(names) == 0 && !flags.has("-r", "--no-run-if-empty"): // it runs once even so
		in.call(args)
	default:
		in.onAll(names, append(slices.Clone(args), "\x00"), "\x00")
	}
	return unknown
}

// A word of xargs has parts in quotes and escaped characters. A quote that nobody
// closes reaches to the end.
const xargsParts = `'[^']*(?:'|$)|"[^"]*(?:"|$)|\\(?:.|$)`

var (
	xargsPart = compiled(`(?s)` + xargsParts)
	xargsWord = compiled(`(?s)(?:` + xargsParts + `|[^ \t\n'"\\])+`)
)

// split cuts a text into names: its lines, or its words as xargs reads them.
func split(text string, lines bool) []string {
	if lines || !strings.ContainsAny(text, `'"\`) {
		return strings.FieldsFunc(text, func(c rune) bool { return c == '\n' || c == 0 || !lines && (c == ' ' || c == '\t') })
	}
	words := xargsWord().FindAllString(text, -1)
	for i, w := range words {
		words[i] = xargsPart().ReplaceAllStringFunc(w, func(part string) string { return strings.TrimSuffix(part[1:], strings.Trim(part[:1], `\`)) })
	}
	return words
}

// parallel is xargs with the names behind ":::".
func (s *shell) parallel(_ string, args []string) string {
	names := split(s.in, true)
	if i := slices.Index(args, ":::"); i >= 0 {
		args, names = args[:i], args[i+1:]
	}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = args[1:]
	}
	cmd := strings.Join(args, " ")
	if !strings.Contains(cmd, "{}") {
		cmd += " {}"
	}
	for i, n := range names {
		if i > maxListed || s.r.over() {
			break
		}
		s.sub().script(strings.ReplaceAll(cmd, "{}", "'"+strings.ReplaceAll(n, "'", `'\''`)+"'"))
	}
	return unknown
}

// grep prints lines of what it reads. With -l it prints files of its folders: those
// that have the text, or could have it.
func (s *shell) grep(name string, args []string) string {
	ops := operands(args, "-e", "-f", "-g", "-t", "-A", "-B", "-C", "-m", "--glob", "--type", "--include", "--exclude", "--exclude-dir")
	patterns := values(args, 'e', "--regexp")
	if len(patterns) == 0 && !has(args, "-f", "--files") && len(ops) > 0 {
		patterns, ops = ops[:1], ops[1:]
	}
	if !hasFlag(args, 'l') && !has(args, "--files-with-matches", "--files") {
		in := s.in
		switch {
		case len(patterns) != 1:
			return in
		case len(ops) > 1 || hasFlag(args, 'o', 'n', 'c', 'r', 'q'):
			return unknown
		case len(ops) == 1:
			in = s.content(ops[0])
		}
		return lines(in, patterns[0], hasFlag(args, 'v'), hasFlag(args, 'F') || name == "fgrep", hasFlag(args, 'E', 'P') || name != "grep")
	}
	w := &wanted{patterns: patterns, without: values(args, 0, "--exclude-dir")}
	w.plain = len(patterns) > 0 && !strings.ContainsAny(strings.Join(patterns, ""), `\*?[]^$.+(){}|`) && !hasFlag(args, 'i')
	include, only := append(values(args, 0, "--include"), values(args, 'g', "--glob")...), ""
	if !strings.ContainsAny(strings.Join(include, ""), "!/") { // others choose by more than the name of a file
		for _, only = range include {
			w.named = append(w.named, fits(only, false))
		}
	}
	if len(include) > 1 {
		only = ""
	}
	ops = orHere(ops)
	if name == "rg" || name == "git grep" {
		if names, ok := s.ofGit(ops, name == "rg"); ok {
			names = slices.DeleteFunc(names, func(n string) bool { return !s.wants(w, repo.Absolute(s.dir, n)) })
			return printed(s.existing(names))
		}
	}
	return s.searched(ops, w, only)
}

// lines keeps the lines that match. If Go does not know the pattern it keeps all.
func lines(text, pat string, not, plain, extended bool) string {
	if plain {
		pat = regexp.QuoteMeta(pat)
	} else if !extended {
		if strings.Contains(pat, `\`) {
			return text
		}
		pat = strings.NewReplacer("+", `\+`, "?", `\?`, "(", `\(`, ")", `\)`, "{", `\{`, "}", `\}`, "|", `\|`).Replace(pat)
	}
	re, err := regexp.Compile(pat)
	if err != nil || !known(text) {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if re.MatchString(strings.TrimSuffix(line, "\n")) != not {
			out.WriteString(line)
		}
	}
	return out.String()
}

// wanted is what a search looks for.
type wanted struct {
	patterns []string            // one of these
	plain    bool                // the patterns are texts
	named    []func(string) bool // in files of one of these names
	without  []string            // not in folders of these names
}

// wants reports whether a search could find a file. It could if the file is large, or if
// there is no time to read it.
func (s *shell) wants(w *wanted, path string) bool {
	if len(w.named) > 0 && !slices.ContainsFunc(w.named, func(f func(string) bool) bool { return f(filepath.Base(path)) }) {
		return false
	}
	if !w.plain || time.Now().After(s.r.until) {
		return true
	}
	body := s.file(path)
	return !known(body) || slices.ContainsFunc(w.patterns, func(p string) bool { return strings.Contains(body, p) })
}

// searched prints the files that a search finds, and patterns for what there was no
// time to look at.
func (s *shell) searched(roots []string, w *wanted, only string) string {
	var out []string
	for _, root := range roots {
		root = strings.TrimPrefix(root, "./")
		real := repo.Absolute(s.dir, root)
		stop := s.walk(real, func(path string, d fs.DirEntry) error {
			switch {
			case d.IsDir() && slices.Contains(w.without, d.Name()):
				return fs.SkipDir
			case !d.IsDir() && s.wants(w, path):
				rel, _ := filepath.Rel(real, path)
				out = append(out, filepath.ToSlash(filepath.Join(root, rel)))
			}
			return nil
		})
		if stop != "" {
			for _, n := range unseen(root, real, stop, only) {
				out = append(out, strings.TrimPrefix(n, "./"))
			}
		}
	}
	return printed(s.existing(out))
}

// ofGit are the files that git tracks in some folders, and with more also the new ones.
// A search that leaves out what git ignores finds no others.
func (s *shell) ofGit(roots []string, more bool) ([]string, bool) {
	g := &gitCall{shell: s, root: rootOf(s.dir)}
	var which []string
	if more {
		which = []string{"--cached", "--others", "--exclude-standard"}
	}
	names, err := g.files(roots, which...)
	return g.fromHere(names), err == nil
}
