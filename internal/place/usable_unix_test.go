//go:build unix

package place

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A home that cannot be written has no place for a store, but one that is there
// can still be looked at.
func TestUsable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	root := t.TempDir()
	p := user(env("HOME", root), "linux")
	if err := os.MkdirAll(p.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.Folder, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(p.Folder, 0o700) })
	if err := p.Usable(false); err == nil || !strings.Contains(err.Error(), "cannot be written") || !strings.Contains(err.Error(), "--store") {
		t.Error(err)
	}
	_ = os.Chmod(p.Folder, 0o700)
	if err := os.WriteFile(filepath.Join(p.Folder, Database), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(p.Folder, 0o500)
	if err := p.Usable(false); err != nil {
		t.Error(err)
	}
}
