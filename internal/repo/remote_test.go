package repo

import "testing"

func TestRemoteWith(t *testing.T) {
	y := newYard(t)
	y.commit("main")
	has := func(dir, want string) {
		t.Helper()
		tree, err := TreeOf(y.path(dir))
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.RemoteWith("tasklock", false); got != want {
			t.Errorf("remote %q, want %q", got, want)
		}
	}
	has("main", "")
	y.git("main", "update-ref", "refs/remotes/origin/tasklock", "HEAD")
	has("main", "") // no such remote
	y.git("main", "remote", "add", "my/hub", "/nowhere")
	y.git("main", "remote", "add", "origin", "/nowhere")
	has("main", "origin")
	y.git("main", "update-ref", "-d", "refs/remotes/origin/tasklock")
	y.git("main", "update-ref", "refs/remotes/origin/feature/tasklock", "HEAD")
	y.git("main", "update-ref", "refs/heads/tasklock", "HEAD")
	has("main", "")
	y.git("main", "update-ref", "refs/remotes/my/hub/tasklock", "HEAD")
	has("main", "my/hub")
	y.git("main", "pack-refs", "--all")
	has("main", "my/hub")
	y.git("main", "worktree", "add", "-q", "../tree")
	has("tree", "my/hub")
	y.git("main", "update-ref", "-d", "refs/remotes/my/hub/tasklock")
	y.git("main", "update-ref", "refs/remotes/origin/tasklock/x", "HEAD")
	has("main", "")
	y.mkdir("none")
	has("none", "")
	y.put("evil/.git/HEAD", "x")
	y.mkdir("evil/.git/objects")
	y.mkdir("evil/.git/refs/remotes")
	y.put("evil/.git/config", "[remote \"../..\"]\n[remote \"\n[remote ]\n")
	y.put("evil/.git/tasklock", "x")
	has("evil", "")
}

func TestWhole(t *testing.T) {
	y := newYard(t)
	y.mkdir("a/b")
	for in, want := range map[string]string{
		"x": "/a/x", "./x": "/a/x", "../x": "/x", "b/": "/a/b", ".": "/a", "*.go": "/a/*.go", "b/**": "/a/b/**", "b/../x": "/a/x",
		y.path("a/x"): "/a/x",
	} {
		if got, err := Whole(y.path("a"), in); err != nil || got != y.root+want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{"/": "/**", "/*": "/*", "/nowhere": "/nowhere"} {
		if got, err := Whole(y.path("a"), in); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	if _, err := Whole(y.root, ""); err == nil {
		t.Error("nothing was accepted")
	}
}
