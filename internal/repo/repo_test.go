package repo

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// yard is a scratch folder with a git that knows nobody's settings.
type yard struct {
	t    *testing.T
	root string
}

func newYard(t *testing.T) yard {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return yard{t, root}
}

func (y yard) git(dir string, args ...string) {
	y.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = y.path(dir)
	cmd.Env = append(os.Environ(), "HOME="+y.root, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES="+y.root,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		y.t.Fatalf("git %v in %s: %v\n%s", args, dir, err, out)
	}
}

func (y yard) path(p string) string { return filepath.Join(y.root, filepath.FromSlash(p)) }

func (y yard) mkdir(p string) {
	y.t.Helper()
	if err := os.MkdirAll(y.path(p), 0o700); err != nil {
		y.t.Fatal(err)
	}
}

func (y yard) put(p, text string) {
	y.t.Helper()
	y.mkdir(filepath.Dir(p))
	if err := os.WriteFile(y.path(p), []byte(text), 0o600); err != nil {
		y.t.Fatal(err)
	}
}

// commit makes a repository with one commit.
func (y yard) commit(dir string) {
	y.t.Helper()
	y.mkdir(dir)
	y.git(dir, "init", "-q")
	y.git(dir, "commit", "-q", "--allow-empty", "-m", "first")
}

// store checks that dir has its store in the folder root.
func (y yard) store(dir, root string) {
	y.t.Helper()
	got, err := TreeOf(y.path(dir))
	if want := y.path(root); err != nil || got.Home != want {
		y.t.Errorf("home of %s: %q, %v\nwant %q", dir, got.Home, err, want)
	}
}

func TestStoreOutsideGit(t *testing.T) {
	y := newYard(t)
	y.mkdir("a/b/c")
	y.store("a/b/c", "a/b/c")
	y.mkdir("a/.tasklock")
	y.store("a/b/c", "a")
	y.mkdir("a/b/.tasklock")
	y.store("a/b/c", "a/b")
	y.mkdir("a/b/c/.git") // git does not take an empty folder for a repository
	y.store("a/b/c", "a/b")
}

func TestStoreIsSharedByWorktrees(t *testing.T) {
	y := newYard(t)
	y.commit("main")
	y.mkdir("main/sub/dir")
	y.mkdir("main/sub/.tasklock") // the root counts, not the nearest
	y.store("main", "main")
	y.store("main/sub/dir", "main")
	y.store("main/.git", "main")
	y.git("main", "worktree", "add", "-q", "../tree")
	y.git("main", "worktree", "add", "-q", "inner")
	y.mkdir("tree/deep")
	y.store("tree/deep", "main")
	y.store("main/inner", "main")
	y.store("main/.git/worktrees/tree", "main")
	if err := os.Symlink(y.path("tree"), y.path("link")); err != nil {
		t.Fatal(err)
	}
	y.store("link", "main")
}

func TestStoreWithRelativeWorktrees(t *testing.T) {
	y := newYard(t)
	y.commit("main")
	y.git("main", "worktree", "add", "-q", "../tree")
	if err := os.WriteFile(y.path("tree/.git"), []byte("gitdir: ../main/.git/worktrees/tree\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	y.store("tree", "main")
}

func TestStoreOfSubmodule(t *testing.T) {
	y := newYard(t)
	y.commit("lib")
	y.commit("main")
	y.git("main", "submodule", "--quiet", "add", "../lib", "libs/lib")
	y.git("main", "commit", "-q", "-m", "add lib")
	y.mkdir("main/libs/lib/src")
	y.store("main/libs/lib/src", "main/libs/lib")
	y.store("main/libs", "main")
	// A worktree of the submodule shares the submodule's store.
	y.git("main/libs/lib", "worktree", "add", "-q", y.path("libtree"))
	y.store("libtree", "main/libs/lib")
	// A submodule in a worktree of its parent is a clone of its own.
	y.git("main", "worktree", "add", "-q", "../tree")
	y.git("tree", "submodule", "--quiet", "update", "--init")
	y.store("tree", "main")
	y.store("tree/libs/lib", "tree/libs/lib")
}

func TestStoreOfBareRepository(t *testing.T) {
	y := newYard(t)
	y.commit("seed")
	y.git("", "clone", "-q", "--bare", "seed", "repo.git")
	y.store("repo.git", "repo.git")
	y.store("repo.git/objects", "repo.git")
	y.git("repo.git", "worktree", "add", "-q", "../tree")
	y.store("tree", "repo.git")
	// The habit of a bare repository in ".git" beside its worktrees.
	y.git("", "clone", "-q", "--bare", "seed", "proj/.git")
	y.git("proj", "worktree", "add", "-q", "one")
	y.git("proj", "worktree", "add", "-q", "two")
	y.store("proj", "proj")
	y.store("proj/one", "proj")
	y.store("proj/two", "proj")
}

func TestStoreOfSeparateRepository(t *testing.T) {
	y := newYard(t)
	y.mkdir("files")
	y.git("files", "init", "-q", "--separate-git-dir", "../repo")
	y.git("files", "commit", "-q", "--allow-empty", "-m", "first")
	y.git("files", "worktree", "add", "-q", "../tree")
	y.store("files", "repo")
	y.store("tree", "repo")
	y.git("files", "config", "core.worktree", y.path("files"))
	y.store("files", "files")
	y.store("tree", "files")
}

// A worktree that has lost its repository must not get a store of its own.
func TestStoreOfLostWorktree(t *testing.T) {
	y := newYard(t)
	y.commit("main")
	y.git("main", "worktree", "add", "-q", "../tree")
	if err := os.Rename(y.path("main"), y.path("moved")); err != nil {
		t.Fatal(err)
	}
	var bad *Error
	if got, err := TreeOf(y.path("tree")); !errors.As(err, &bad) || !strings.Contains(err.Error(), "--store") {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"", "garbage", "gitdir:", "gitdir: /nowhere", "gitdir: .", "\x00\xff"} {
		y.put("odd/.git", text)
		if got, err := TreeOf(y.path("odd")); !errors.As(err, &bad) {
			t.Errorf(".git with %q: %q, %v", text, got, err)
		}
	}
}

func TestUnquote(t *testing.T) {
	for in, want := range map[string]string{`a`: `a`, `"a b"`: `a b`, `"C:\\x \"y\""`: `C:\x "y"`, `"`: `"`, ``: ``} {
		if got := unquote(in); got != want {
			t.Errorf("unquote(%s) = %s", in, got)
		}
	}
}
