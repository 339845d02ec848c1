package place

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/repo"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

// Where a user's store is, on every system.
func TestUser(t *testing.T) {
	for _, c := range []struct {
		system string
		env    func(string) string
		want   string // "": no place
		notes  bool
	}{
		{"linux", env("HOME", "/home/me"), "/home/me/.local/state/tasklock", false},
		{"linux", env("HOME", "/home/me", "XDG_STATE_HOME", "/state"), "/state/tasklock", false},
		{"linux", env("XDG_STATE_HOME", "/state"), "/state/tasklock", false},
		{"linux", env("HOME", "/home/me", "XDG_STATE_HOME", "state"), "/home/me/.local/state/tasklock", true},
		{"linux", env(), "", false},
		{"linux", env("HOME", "me"), "", false},
		{"linux", env("XDG_STATE_HOME", "state"), "", true},
		{"darwin", env("HOME", "/Users/me"), "/Users/me/Library/Application Support/tasklock", false},
		{"windows", env("LocalAppData", "/local", "HOME", "/home/me", "XDG_STATE_HOME", "/state"), "/local/tasklock", false},
		{"windows", env("HOME", "/home/me"), "", false},
	} {
		p := user(c.env, c.system)
		if p.Folder != filepath.FromSlash(c.want) || (p.Problem() == nil) != (c.want != "") || (p.notes != "") != c.notes || p.Kind != User {
			t.Errorf("%s: %+v, want %s", c.system, p, c.want)
		}
		if c.want == "" && (p.URL() != "sqlite:" || !strings.Contains(p.Problem().Error(), "--store") || p.Usable(false) == nil || p.Prepare() == nil) {
			t.Errorf("%s: nowhere is %+v", c.system, p)
		}
	}
}

func TestFind(t *testing.T) {
	root := repo.Canonical(t.TempDir())
	dir := func(path string) string {
		path = filepath.Join(root, filepath.FromSlash(path))
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	home := env("HOME", dir("home"))
	find := func(at string, kind Kind, folder string) {
		t.Helper()
		p, err := Find(dir(at), home)
		if want := filepath.Join(root, filepath.FromSlash(folder)); err != nil || p.Kind != kind || p.Folder != want || p.Problem() != nil {
			t.Errorf("%s: %+v, %v\nwant %s %s", at, p, err, kind, want)
		}
	}
	find("a/b", User, "home/.local/state/tasklock")
	find("c", User, "home/.local/state/tasklock")
	dir("a/.tasklock")
	find("a/b", Project, "a/.tasklock")
	for _, d := range []string{"r/.git/objects", "r/.git/refs", "r/sub/.tasklock"} {
		dir(d)
	}
	if err := os.WriteFile(filepath.Join(root, "r/.git/HEAD"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	find("r/sub", Repository, "r/.tasklock")
	if p, err := Here(dir("c")); err != nil || p.Kind != Project || p.Folder != filepath.Join(root, "c", repo.StoreDir) {
		t.Errorf("%+v, %v", p, err)
	}
}

// Two stores of one user are refused, and the second is not made, unless they
// are the same by two names.
func TestTwoStores(t *testing.T) {
	root := t.TempDir()
	put := func(folder string) {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, Database), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	usual := filepath.Join(root, ".local", "state", "tasklock")
	both := env("HOME", root, "XDG_STATE_HOME", filepath.Join(root, "xdg"))
	put(usual)
	var two *Error
	if p := user(both, "linux"); !errors.As(p.Problem(), &two) || len(two.Stores) != 1 || !strings.Contains(two.Stores[0], usual) {
		t.Errorf("one store, and none where XDG_STATE_HOME says: %v", p.Problem())
	}
	put(filepath.Join(root, "xdg", "tasklock"))
	if p := user(both, "linux"); !errors.As(p.Problem(), &two) || len(two.Stores) != 2 || !strings.Contains(two.Error(), usual) {
		t.Errorf("two stores: %v", p.Problem())
	}
	if p := user(env("HOME", root), "linux"); p.Problem() != nil {
		t.Errorf("without the variable: %v", p.Problem())
	}
	if err := os.Symlink(filepath.Join(root, ".local", "state"), filepath.Join(root, "link")); err != nil {
		t.Skip(err)
	}
	if p := user(env("HOME", root, "XDG_STATE_HOME", filepath.Join(root, "link")), "linux"); p.Problem() != nil {
		t.Errorf("one store by two names: %v", p.Problem())
	}
}

// A home is never made, and what is above the store is, for its user alone.
func TestPrepare(t *testing.T) {
	root := t.TempDir()
	gone := user(env("HOME", filepath.Join(root, "gone")), "linux")
	if gone.Usable(false) == nil || gone.Prepare() == nil || repo.Exists(filepath.Join(root, "gone")) {
		t.Error("a home was made")
	}
	far := user(env("HOME", root, "XDG_STATE_HOME", filepath.Join(t.TempDir(), "a", "b")), "linux")
	if far.Usable(false) == nil || far.Prepare() == nil {
		t.Error("folders far from home were made")
	}
	for _, e := range []func(string) string{env("HOME", root), env("HOME", root, "XDG_STATE_HOME", filepath.Join(root, "x", "y")), env("XDG_STATE_HOME", filepath.Join(root, "z"))} {
		p := user(e, "linux")
		if err := errors.Join(p.Usable(false), p.Prepare(), p.Prepare()); err != nil {
			t.Error(err)
		}
		fi, err := os.Stat(filepath.Dir(p.Folder))
		if err != nil || fi.Mode().Perm()&0o077 != 0 || repo.Exists(p.Folder) {
			t.Errorf("%s: %v, %v", p.Folder, fi, err)
		}
	}
}
