package plant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPatchesFit is quick, so that whoever moves the source away from a patch
// hears of it at once.
func TestPatchesFit(t *testing.T) {
	_, err := all(t.TempDir())
	must(t, err)
}

// A patch that does not fit says which one, where, and how to rebuild it.
func TestMisfit(t *testing.T) {
	const patch = `Anyone may; nothing catches it.

diff --git a/lock.go b/lock.go
--- a/lock.go
+++ b/lock.go
@@ -1,4 +1,4 @@
 package lock
 
-func may() bool { return false }
+func may() bool { return fault.Bug("anyone") }
 
`
	for source, want := range map[string]string{
		"package lock\n\nfunc may() bool { return false }\n\n": "",
		"package lock\n\nfunc may() bool { return 1 == 2 }\n":  "patch failed: lock.go:1",
		"": "lock.go: no such file",
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "go.mod"), "module lock\n")
		write(t, filepath.Join(dir, file("anyone")), patch)
		if source != "" {
			write(t, filepath.Join(dir, "lock.go"), source)
		}
		t.Chdir(filepath.Join(dir, folder))
		s := sources{root: dir, copies: t.TempDir(), replace: map[string]string{}}
		err := s.plant("anyone")
		if want == "" {
			must(t, err)
			continue
		}
		for _, w := range []string{want, "the bug anyone", file("anyone"), "scripts/bug anyone\n"} {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v does not say %q", err, w)
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
