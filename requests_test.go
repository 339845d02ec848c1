package tasklock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A request is data: its caller sees all of it, and no method changes it. What
// runs is a type of its own, because a transaction may run again.
func TestRequestsAreData(t *testing.T) {
	for _, dir := range []string{"internal/lease", "task", "schedule", "runner"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, fault := range requestFaults(t, name, nil) {
				t.Error(fault)
			}
		}
	}
}

func TestRequestFaultsAreFound(t *testing.T) {
	const source = `package p
type TakeRequest struct {
	Key string
	key string
}
func (r *TakeRequest) run() {}
func (r TakeRequest) check() error { return nil }
type taking struct{ key string }
func (t *taking) run() {}
`
	got := requestFaults(t, "p.go", source)
	want := []string{"p.go:4: TakeRequest has the unexported field key", "p.go:6: run can change its TakeRequest"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// requestFaults lists what makes a type named Request more than data: fields
// that only its package sees, and methods that can change it.
func requestFaults(t *testing.T, name string, source any) (faults []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	add := func(pos token.Pos, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s:%d: ", name, set.Position(pos).Line)+fmt.Sprintf(format, args...))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			fields, ok := n.Type.(*ast.StructType)
			if !ok || !strings.HasSuffix(n.Name.Name, "Request") {
				break
			}
			for _, f := range fields.Fields.List {
				for _, id := range f.Names {
					if !id.IsExported() {
						add(id.Pos(), "%s has the unexported field %s", n.Name.Name, id.Name)
					}
				}
			}
		case *ast.FuncDecl:
			if n.Recv == nil {
				break
			}
			star, ok := n.Recv.List[0].Type.(*ast.StarExpr)
			if !ok {
				break
			}
			if id, ok := star.X.(*ast.Ident); ok && strings.HasSuffix(id.Name, "Request") {
				add(n.Pos(), "%s can change its %s", n.Name.Name, id.Name)
			}
		}
		return true
	})
	return faults
}
