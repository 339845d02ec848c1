package repo

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// names is a repository with a worktree beside it and one inside, a submodule,
// and links in and out.
func names(t *testing.T) (yard, Tree) {
	y := newYard(t)
	y.commit("main")
	y.commit("lib")
	y.git("main", "worktree", "add", "-q", "../tree")
	y.git("main", "worktree", "add", "-q", "inner")
	y.git("main", "submodule", "--quiet", "add", "../lib", "sub")
	y.mkdir("main/src/api")
	y.put("main/src/api/x.go", "")
	for link, target := range map[string]string{
		"main/in": "src", "main/out": "../lib", "main/new": "src/none/yet", "main/gone": "/nowhere/at/all", "main/loop": "loop", "main/beside": "../tree/src",
	} {
		if err := os.Symlink(filepath.FromSlash(target), y.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := TreeOf(y.path("main/src"))
	if err != nil || tree.Top != y.path("main") || tree.Home != y.path("main") {
		t.Fatalf("%+v, %v", tree, err)
	}
	return y, tree
}

func TestNames(t *testing.T) {
	y, tree := names(t)
	for _, c := range []struct{ dir, path, want string }{
		{"main", "src/api/x.go", "src/api/x.go"},
		{"main/src", "api/x.go", "src/api/x.go"},
		{"main/src", "../README", "README"},
		{"main/src", y.path("main/none/of/these"), "none/of/these"},
		{"main", ".", "."},
		{"main", "src/../src/api", "src/api"},
		{"main", y.path("tree/src/a"), "src/a"},
		{"main", "../tree", "."},
		{"main", "inner/src/a", "src/a"}, // a worktree inside is one too
		{"main", "in/api/x.go", "src/api/x.go"},
		{"main", "new", "src/none/yet"},
		{"main", "new/x", "src/none/yet/x"},
		{"main", "beside/x", "src/x"},
		{"main", "../x", ""},
		{"main", "/etc/passwd", ""},
		{"main", "out/x", ""},
		{"main", "gone", ""},
		{"main", "loop", ""},
		{"main", "sub/x", ""}, // a repository of its own
		{"main", y.path("lib/x"), ""},
	} {
		got, err := tree.Name(y.path(c.dir), c.path)
		var outside *OutsideError
		if got != c.want || (c.want == "") != errors.As(err, &outside) {
			t.Errorf("%s in %s: %q, %v; want %q", c.path, c.dir, got, err, c.want)
		}
	}
}

func TestPatterns(t *testing.T) {
	y, tree := names(t)
	for _, c := range []struct{ dir, pattern, want string }{
		{"main", "src/api/**", "src/api/**"},
		{"main/src", "src/api/**", "src/api/**"},
		{"main/src", "./api/*.go", "src/api/*.go"},
		{"main/src", "./*", "src/*"},
		{"main/src", "../docs/", "docs"},
		{"main/src", ".", "src"},
		{"main/src", "..", "**"},
		{"main", ".", "**"},
		{"main", "**", "**"},
		{"main", "*.go", "*.go"},
		{"main", ".github/x", ".github/x"},
		{"main", "..x/y", "..x/y"},
		{"main", y.path("tree/src") + "/**", "src/**"},
		{"main", "in/**", "src/**"},
		{"main", "src/[x]/*", "src/[x]/*"}, // not ours to refuse
		{"main", "../x", ""},
		{"main", "/*", ""},
		{"main", "/", ""},
		{"main", "", ""},
		{"main", "out/*", ""},
		{"main", y.path("lib") + "/*", ""},
	} {
		got, err := tree.Pattern(y.path(c.dir), c.pattern)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s in %s: %q, %v; want %q", c.pattern, c.dir, got, err, c.want)
		}
	}
}

func TestTreeOutsideGit(t *testing.T) {
	y := newYard(t)
	y.mkdir("p/.tasklock")
	y.mkdir("p/a/b")
	tree, err := TreeOf(y.path("p/a/b"))
	if err != nil || tree.Top != y.path("p") {
		t.Fatalf("%+v, %v", tree, err)
	}
	if got, err := tree.Name(y.path("p/a/b"), "../x"); got != "a/x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := tree.Name(y.path("p/a"), "../../x"); err == nil {
		t.Errorf("%q", got)
	}
}
