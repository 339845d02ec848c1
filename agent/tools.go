package agent

import (
	"regexp"
	"slices"
	"strings"
)

// formatters write the files they are given: with one of these flags, or, where
// there is none, unless they only look.
var formatters = map[string][]string{
	"gofmt": {"-w"}, "gofumpt": {"-w"}, "goimports": {"-w"}, "prettier": {"--write", "-w"}, "clang-format": {"-i"},
	"eslint": {"--fix"}, "stylelint": {"--fix"}, "rustfmt": nil, "black": nil, "isort": nil,
}

// tool notes what programs write that are told so by a flag.
func (s *shell) tool(name string, args []shellWord) {
	flags, formats := formatters[name]
	switch {
	case formats && (len(flags) > 0 && has(args, flags...) || len(flags) == 0 && !has(args, "--check", "--diff", "-c")):
		for _, w := range operands(args) {
			if w.pattern == "" && strings.ContainsAny(w.text, "*?") { // they read patterns themselves
				w.pattern = w.text
			}
			s.add(w, true)
		}
	case name == "awk" || name == "gawk":
		if i := slices.IndexFunc(args, func(a shellWord) bool { return a.text == "inplace" }); i > 0 && args[i-1].text == "-i" {
			s.inPlace(args, true, "-i", "-v", "-F")
		}
	case name == "sponge":
		s.each(operands(args), false)
	case name == "ed" || name == "ex":
		s.each(operands(args, "-c", "-sc", "-p"), false)
	case name == "patch":
		if ops := operands(args, "-i", "-o", "-d", "-r", "-p"); len(ops) > 0 {
			s.add(ops[0], false) // the second is the patch
		}
	case name == "go" && len(args) > 1 && args[0].text == "fmt":
		for _, w := range operands(args[1:]) {
			w.text = strings.TrimSuffix(w.text, "/...")
			s.add(w, true)
		}
	case name == "sort":
		s.each(valuesOf(args, 'o', "--output"), false)
	case name == "curl":
		s.each(valuesOf(args, 'o', "--output"), false)
	case name == "wget":
		s.each(valuesOf(args, 'O', "--output-document"), false)
	}
}

// sqlite notes the database if one of the statements changes it.
func (s *shell) sqlite(args []shellWord, stdin string) {
	ops := operands(args, "-cmd", "-separator", "-newline", "-nullvalue", "-init", "-vfs")
	if len(ops) == 0 || has(args, "-readonly") {
		return
	}
	text := stdin
	for _, w := range ops[1:] {
		text += "\n" + w.text
	}
	if changing.MatchString(text) {
		s.add(ops[0], false)
	}
}

// changing finds SQL, and commands of sqlite3, that change a database.
var changing = regexp.MustCompile(`(?im)(^|;)\s*(insert|update|delete|drop|create|alter|replace|vacuum|reindex|with\b.*\b(insert|update|delete)|pragma\s+\w+\s*=|\.(restore|import|read|recover))\b`)

// valuesOf returns the values of a flag, also at the end of joined letters.
func valuesOf(args []shellWord, letter byte, long string) (out []shellWord) {
	for i, a := range args {
		if value, ok := strings.CutPrefix(a.text, long+"="); ok {
			out = append(out, shellWord{text: value, known: a.known})
			continue
		}
		short := strings.HasPrefix(a.text, "-") && !strings.HasPrefix(a.text, "--") && strings.HasSuffix(a.text, string(letter))
		if (short || a.text == long) && i+1 < len(args) {
			out = append(out, args[i+1])
		}
	}
	return out
}
