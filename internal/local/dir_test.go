package local_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

func TestDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "store")
	if _, err := local.Dir(path, local.DirOptions{}); !errors.Is(err, driver.ErrMissing) {
		t.Errorf("missing: %v", err)
	}
	for range 2 {
		safe, err := local.Dir(path, local.DirOptions{Create: true})
		if err != nil || !safe {
			t.Fatalf("safe %v, %v", safe, err)
		}
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", fi, err)
	}
	file := filepath.Join(path, ".gitignore")
	if _, err := local.Dir(file, local.DirOptions{}); !errors.Is(err, driver.ErrDamaged) {
		t.Errorf("a file: %v", err)
	}
}
