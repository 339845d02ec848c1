package shellwrites

import (
	"slices"
	"strings"

	"github.com/tasklock/tasklock/internal/repo"
)

// Tools of programming languages: formatters, builders, interpreters.

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

func (s *shell) deno(_ string, args []string) {
	if len(args) > 1 && args[0] == "eval" {
		s.code(javascript, append([]string{"-e"}, operands(args[1:])...), "-e")
	}
}

func (s *shell) yq(_ string, args []string) {
	ops := operands(args, "-p", "-o", "--input-format", "--output-format", "--from-file", "--arg", "--argjson")
	if len(ops) > 0 && slices.Contains([]string{"e", "eval", "ea", "eval-all"}, ops[0]) {
		ops = ops[1:]
	}
	if len(ops) > 1 && (hasFlag(args, 'i') || has(args, "--inplace", "--in-place")) {
		s.write(ops[1:]...)
	}
}

func (s *shell) cargo(_ string, args []string) {
	if len(args) > 0 && args[0] == "fmt" && !slices.Contains(args, "--check") {
		s.add(anyPath+"/"+anyName+".rs", Target{There: true})
	}
}

func (s *shell) terraform(_ string, args []string) {
	if len(args) > 0 && args[0] == "fmt" && !has(args, "-check", "--check", "-write=false") && len(operands(args[1:])) == 0 {
		s.add(anyName+".tf", Target{There: true})
	}
}

func (s *shell) biome(_ string, args []string) {
	if len(args) > 0 && has(args, "--write", "--apply", "--fix", "--apply-unsafe") {
		s.format(nil, args[1:])
	}
}

func (s *shell) goTool(_ string, args []string) {
	if len(args) > 0 && args[0] == "build" {
		if i := slices.Index(args, "-o"); i > 0 && i+1 < len(args) && !repo.IsDir(repo.Absolute(s.dir, args[i+1])) {
			s.write(args[i+1])
		}
	}
	if len(args) > 1 && args[0] == "fmt" {
		for _, p := range operands(args[1:]) {
			s.tree(strings.TrimSuffix(strings.TrimSuffix(p, "..."), "/"))
		}
	}
}

func (s *shell) ruff(_ string, args []string) {
	if len(args) > 0 && (args[0] == "format" && !has(args, "--check", "--diff") || args[0] == "check" && has(args, "--fix")) {
		s.tree(operands(args[1:])...)
	}
}
