package shellwrites

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tasklock/tasklock/internal/repo"
)

// The expression of find: tests that choose files, and actions on them.

// or, and, not read the expression. A test that is not known counts as true.
func (f *finder) or() test {
	left := f.and()
	for len(f.tests) > 0 && (f.tests[0] == "-o" || f.tests[0] == "-or") {
		f.tests = f.tests[1:]
		a, b := left, f.and()
		left = func(f *finder) bool { return a(f) || b(f) }
	}
	return left
}

func (f *finder) and() test {
	left := test(yes)
	for len(f.tests) > 0 && f.tests[0] != ")" && f.tests[0] != "-o" && f.tests[0] != "-or" {
		if f.tests[0] == "-a" || f.tests[0] == "-and" {
			f.tests = f.tests[1:]
			continue
		}
		a, b := left, f.not()
		left = func(f *finder) bool { return a(f) && b(f) }
	}
	return left
}

func (f *finder) not() test {
	word := f.next()
	switch word {
	case "!", "-not":
		if len(f.tests) == 0 {
			return yes
		}
		inner := f.not()
		return func(f *finder) bool { return !inner(f) }
	case "(":
		inner := f.or()
		f.next()
		return inner
	}
	return f.primary(word)
}

func (f *finder) next() string {
	if len(f.tests) == 0 {
		return ""
	}
	word := f.tests[0]
	f.tests = f.tests[1:]
	return word
}

// yes is a test that everything passes.
func yes(*finder) bool { return true }

// primary reads one test or action.
func (f *finder) primary(word string) test {
	if t := f.fileTest(word); t != nil {
		return t
	}
	if a := f.readAction(word); a != nil {
		f.printsSome = true
		f.acts = append(f.acts, a)
		return func(f *finder) bool { a.names = append(a.names, f.path); return true }
	}
	switch word {
	case "-prune":
		return func(f *finder) bool { f.pruned = true; return true }
	case "-false":
		return func(*finder) bool { return false }
	case "-maxdepth":
		f.most = number([]string{f.next()}, 0)
	case "-mindepth":
		f.least = number([]string{f.next()}, 0)
	case "-fprint", "-fprint0", "-fls":
		f.s.write(f.next())
		f.printsSome = true
	case "-printf":
		f.next()
		f.printsSome = true
	case "-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin", "-size", "-perm", "-user", "-group", "-regex", "-iregex", "-newermt", "-links", "-inum", "-samefile", "-regextype":
		f.next()
	}
	return yes
}

// fileTest reads a test that looks at the file; nil: the word is none.
func (f *finder) fileTest(word string) test {
	switch word {
	case "-name", "-iname":
		pat := f.next()
		if f.name == "" {
			f.name = pat
		}
		named := fits(pat, word == "-iname")
		return func(f *finder) bool { return named(filepath.Base(f.real)) }
	case "-path", "-wholename", "-ipath":
		named := fits(f.next(), word == "-ipath")
		return func(f *finder) bool { return named(f.path) }
	case "-type":
		kinds := f.next()
		return func(f *finder) bool { return strings.Contains(kinds, kindOf(f.entry)) }
	case "-empty":
		return (*finder).empty
	case "-newer":
		than, err := os.Stat(repo.Absolute(f.s.dir, f.next()))
		return func(f *finder) bool {
			fi, no := f.entry.Info()
			return err != nil || no != nil || fi.ModTime().After(than.ModTime())
		}
	}
	return nil
}

// kindOf is the letter that find has for a kind of file.
func kindOf(d fs.DirEntry) string {
	switch {
	case d.IsDir():
		return "d"
	case d.Type()&fs.ModeSymlink != 0:
		return "l"
	}
	return "f"
}

func (f *finder) empty() bool {
	if f.entry.IsDir() {
		list, err := os.ReadDir(f.real)
		return err == nil && len(list) == 0
	}
	fi, err := f.entry.Info()
	return err == nil && fi.Size() == 0
}

// readAction reads an action; nil: the word is none.
func (f *finder) readAction(word string) *action {
	switch word {
	case "-print", "-print0":
		return &action{}
	case "-delete":
		return &action{do: func(in *shell, names []string) {
			for _, n := range names {
				in.add(n, Target{Gone: true, There: true})
			}
		}}
	case "-exec", "-execdir", "-ok", "-okdir":
		var cmd []string
		for w := f.next(); w != "" && w != ";"; w = f.next() {
			if w == "+" {
				return &action{do: func(in *shell, names []string) { in.onAll(names, cmd, "{}") }}
			}
			cmd = append(cmd, w)
		}
		return &action{do: func(in *shell, names []string) { in.onEach(names, cmd, "{}") }}
	}
	return nil
}

// fits compares names with a pattern as find does: "*" means slashes too.
func fits(pat string, fold bool) func(name string) bool {
	if fold {
		inner := fits(strings.ToLower(pat), false)
		return func(name string) bool { return inner(strings.ToLower(name)) }
	}
	if !strings.ContainsAny(pat, "*?[\\") {
		return func(name string) bool { return name == pat }
	}
	return matcher(pat)
}
