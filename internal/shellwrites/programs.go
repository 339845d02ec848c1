package shellwrites

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/tasklock/tasklock/internal/repo"
)

// program follows one program by its arguments, and returns what it prints, or
// unknown.
func (s *shell) program(args []string) string {
	path := args[0]
	name := base(path)
	args = args[1:]
	makePrograms.Do(fillPrograms)
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

type program func(s *shell, name string, args []string) string

// programs is filled when it is first used, see compiled.
var (
	programs     = map[string]program{}
	makePrograms sync.Once
)

// writes makes a program of a function that only notes what is written.
func writes(f func(s *shell, name string, args []string)) program {
	return func(s *shell, name string, args []string) string {
		f(s, name, args)
		return unknown
	}
}

func fillPrograms() {
	for _, p := range []struct {
		names string
		run   program
	}{
		{"cd pushd popd", (*shell).changeDir},
		{"eval", func(s *shell, _ string, args []string) string { return s.script(strings.Join(args, " ")) }},
		{"bash sh zsh dash ksh", (*shell).interpreter},
		{"source .", (*shell).source},
		{"set", (*shell).set},
		{"shift", (*shell).shift},
		{"read mapfile readarray", (*shell).read},
		{"trap", (*shell).trap},
		{"true false : test [ exit return sleep wait", silent},
		{"tasklock tasklock-plus", (*shell).tasklock},
		{"git", (*shell).git},

		{"echo", (*shell).echo},
		{"printf", (*shell).printf},
		{"cat", (*shell).cat},
		{"ls", (*shell).ls},
		{"find", (*shell).find},
		{"xargs", (*shell).xargs},
		{"parallel", (*shell).parallel},
		{"pwd", func(s *shell, _ string, _ []string) string { return s.dir + "\n" }},
		{"dirname", func(s *shell, _ string, args []string) string { return each(args, filepath.Dir) }},
		{"basename", (*shell).basename},
		{"realpath readlink", func(s *shell, _ string, args []string) string {
			return each(operands(args), func(p string) string { return repo.Absolute(s.dir, p) })
		}},
		{"head tail sort uniq tr cut", (*shell).filter},
		{"grep egrep fgrep rg ag ack", (*shell).grep},
		{"tee", (*shell).tee},

		{"rm rmdir unlink shred trash", writes((*shell).remove)},
		{"touch truncate", writes((*shell).touch)},
		{"mkdir", writes((*shell).mkdir)},
		{"mktemp", writes((*shell).mktemp)},
		{"chmod chown chgrp setfacl", writes((*shell).chmod)},
		{"cp mv install ln rsync", writes((*shell).copies)},
		{"tar bsdtar", writes((*shell).tar)},
		{"unzip", writes((*shell).unzip)},
		{"zip", writes((*shell).zip)},
		{"gzip gunzip bzip2 bunzip2 xz unxz zstd", writes((*shell).compress)},
		{"split csplit", writes((*shell).split)},
		{"dd", writes((*shell).dd)},
		{"sponge", writes(func(s *shell, _ string, args []string) { s.write(operands(args)...) })},
		{"curl wget", writes((*shell).curl)},
		{"flock", writes((*shell).flock)},
		{"script", writes((*shell).typescript)},
		{"sqlite3", writes((*shell).sqlite)},

		{"apply_patch", writes((*shell).applyPatch)},
		{"patch", writes((*shell).patch)},
		{"sed gsed", (*shell).sed},
		{"awk gawk mawk nawk", (*shell).awk},
		{"vim vi nvim ex ed", writes((*shell).editor)},
		{"perl ruby", writes((*shell).perl)},
		{"node nodejs", writes(func(s *shell, _ string, args []string) {
			s.code(javascript, args, "-e", "--eval", "-p", "-pe", "--print")
		})},
		{"bun", writes(func(s *shell, _ string, args []string) { s.code(javascript, args, "-e", "--eval", "-p", "--print") })},
		{"deno", writes((*shell).deno)},
		{"yq", writes((*shell).yq)},
		{"cargo", writes((*shell).cargo)},
		{"terraform", writes((*shell).terraform)},
		{"biome", writes((*shell).biome)},
		{"go", writes((*shell).goTool)},
		{"ruff", writes((*shell).ruff)},
	} {
		for name := range strings.FieldsSeq(p.names) {
			programs[name] = p.run
		}
	}
}
