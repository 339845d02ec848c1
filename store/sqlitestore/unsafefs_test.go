package sqlitestore

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

// openUnsafe opens path as if its file system were not to be trusted.
func openUnsafe(t testing.TB, path string) *Store {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	s := newStore(path, false, 0)
	if err := s.open(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return s
}

// The rollback journal keeps every promise too, where locks work.
func TestConformanceWithoutSharedMemory(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Place: func(t testing.TB) string { return filepath.Join(t.TempDir(), "store", "db") },
		Open:  func(t testing.TB, place string) driver.Store { return openUnsafe(t, place) },
	})
}

// A database that had a log loses it.
func TestWithoutSharedMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store", "db")
	s, err := Open(t.Context(), path, &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	batch := driver.Batch{Writes: []driver.Write{{Key: "lock/a", Value: []byte(`{}`)}}}
	first, err := s.Commit(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openUnsafe(t, path)
	defer func() { _ = s.Close() }()
	if rev, err := s.Commit(t.Context(), batch); err != nil || rev <= first {
		t.Fatalf("revision %d after %d, %v", rev, first, err)
	}
	for _, f := range []string{"-wal", "-shm"} {
		if _, err := os.Lstat(path + f); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", f, err)
		}
	}
}

// A database that another process made, and opened, between a look for it and the
// look at its log is not one that is missing.
func TestMadeWhileLooking(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store", "db")
	s, err := Open(t.Context(), path, &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if found, err := s.lookAtLog(nil); err != nil || found == nil {
		t.Errorf("found %v, %v", found, err)
	}
}
