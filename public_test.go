package tasklock_test

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A program outside this module can name the type of every field that it can
// fill in or read: a public type has no exported field whose type only internal
// packages name.
func TestPublicFieldsHaveNames(t *testing.T) {
	const module = "github.com/tasklock/tasklock/"
	public := []string{module + "lock", module + "task", module + "schedule", module + "runner", module + "store", module + "store/driver"}
	load := packages(t, public...)
	for _, path := range public {
		pkg, err := load.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range unnamed(pkg) {
			t.Error(fault)
		}
	}
}

func TestUnnamedFieldsAreFound(t *testing.T) {
	inner := types.NewPackage("x/internal/inner", "inner")
	kind := types.NewNamed(types.NewTypeName(token.NoPos, inner, "Kind", nil), types.Typ[types.Int], nil)
	field := types.NewField(token.NoPos, inner, "Kinds", types.NewSlice(types.NewPointer(kind)), false)
	info := types.NewNamed(types.NewTypeName(token.NoPos, inner, "Info", nil), types.NewStruct([]*types.Var{field}, nil), nil)
	pkg := types.NewPackage("x/p", "p")
	pkg.Scope().Insert(types.NewTypeName(token.NoPos, pkg, "Info", types.NewAlias(types.NewTypeName(token.NoPos, pkg, "Info", nil), info)))
	if got := unnamed(pkg); !slices.Equal(got, []string{"p: Info.Kinds is of inner.Kind, which p does not name"}) {
		t.Errorf("%q", got)
	}
	pkg.Scope().Insert(types.NewTypeName(token.NoPos, pkg, "Kind", kind))
	if got := unnamed(pkg); got != nil {
		t.Errorf("%q", got)
	}
}

// packages reads the packages as the compiler left them.
func packages(t *testing.T, paths ...string) types.Importer {
	t.Helper()
	list, err := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}"}, paths...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(list)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}

// unnamed lists the exported fields of a package's types, and of the fields of
// those, whose type is internal and has no name in the package.
func unnamed(pkg *types.Package) (faults []string) {
	names := map[types.Type]bool{}
	var todo []types.Type
	for _, name := range pkg.Scope().Names() {
		if obj, ok := pkg.Scope().Lookup(name).(*types.TypeName); ok && obj.Exported() {
			todo = append(todo, types.Unalias(obj.Type()))
			names[types.Unalias(obj.Type())] = true
		}
	}
	for ; len(todo) > 0; todo = todo[1:] {
		at, ok := todo[0].Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for field := range at.Fields() {
			if !field.Exported() {
				continue
			}
			for _, used := range parts(field.Type()) {
				if names[used] || !strings.Contains(used.Obj().Pkg().Path(), "/internal/") {
					continue
				}
				names[used] = true // once is enough
				owner := types.TypeString(todo[0], func(*types.Package) string { return "" })
				faults = append(faults, fmt.Sprintf("%s: %s.%s is of %s.%s, which %[1]s does not name", pkg.Name(), owner, field.Name(), used.Obj().Pkg().Name(), used.Obj().Name()))
				todo = append(todo, used)
			}
		}
	}
	return faults
}

// parts are the named types that a type is made of.
func parts(t types.Type) (found []*types.Named) {
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		if t.Obj().Pkg() != nil { // else it is error
			found = append(found, t)
		}
	case *types.Map:
		found = append(parts(t.Key()), parts(t.Elem())...)
	case *types.Signature:
		for v := range t.Params().Variables() {
			found = append(found, parts(v.Type())...)
		}
		for v := range t.Results().Variables() {
			found = append(found, parts(v.Type())...)
		}
	case interface{ Elem() types.Type }:
		found = parts(t.Elem())
	}
	return found
}
