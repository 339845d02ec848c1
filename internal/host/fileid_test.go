package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// An id is that of one file, whichever way one looks, and of no file that takes
// its place while it exists.
func TestFileID(t *testing.T) {
	path, other := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	if _, err := LookID(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for _, p := range []string{path, other} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := LookID(path)
	if err != nil || !id.Is(IDOf(fi)) {
		t.Errorf("one file has two ids: %v %v", id, err)
	}
	if err := os.Rename(other, path+".new"); err != nil {
		t.Fatal(err)
	}
	if now, err := LookID(path + ".new"); err != nil || now.Is(id) || (FileID{}).Is(FileID{}) {
		t.Errorf("two files have one id: %v %v", now, err)
	}
}
