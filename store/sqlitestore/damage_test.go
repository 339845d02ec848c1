package sqlitestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

// place makes a closed store with one record, all of it in the database file.
func place(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store", "tasklock.db")
	s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), put("lock/a", `{"owner":"me"}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Damage is an answer of its own, and what is damaged is left as it is.
func TestDamage(t *testing.T) {
	sql := func(stmt string) func(*testing.T, string) {
		return func(t *testing.T, path string) { shell(t, path, stmt) }
	}
	cut := func(n int64) func(*testing.T, string) {
		return func(t *testing.T, path string) { must(t, os.Truncate(path, n)) }
	}
	whole, err := os.ReadFile(place(t))
	must(t, err)
	cases := map[string]struct {
		damage func(t *testing.T, path string)
		want   error
	}{
		"foreign database": {sql("PRAGMA application_id=7"), driver.ErrDamaged},
		"no id":            {sql("PRAGMA application_id=0"), driver.ErrDamaged},
		"newer format":     {sql("PRAGMA user_version=2"), driver.ErrNewer},
		"missing table":    {sql("DROP TABLE record"), driver.ErrDamaged},
		"missing column":   {sql("ALTER TABLE record DROP COLUMN awake"), driver.ErrDamaged},
		"missing revision": {sql("DELETE FROM record WHERE key = ''"), driver.ErrDamaged},
		"broken revision":  {sql("UPDATE record SET value = '[' WHERE key = ''"), driver.ErrDamaged},
		"text": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, []byte("not a database, but long enough to be looked at\n"), 0o600))
		}, driver.ErrDamaged},
		"zeros": {func(t *testing.T, path string) {
			must(t, os.WriteFile(path, make([]byte, len(whole)), 0o600))
		}, driver.ErrDamaged},
		"folder": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Mkdir(path, 0o700))
		}, driver.ErrDamaged},
		"log without database": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.WriteFile(path+"-wal", []byte("x"), 0o600))
		}, driver.ErrDamaged},
		"journal without database": {func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.WriteFile(path+"-journal", []byte("x"), 0o600))
		}, driver.ErrDamaged},
		"shared memory without log": {func(t *testing.T, path string) {
			run(t, "write", path)
			must(t, os.Remove(path+"-wal"))
		}, driver.ErrDamaged},
	}
	for _, n := range []int64{0, 1, 15, 16, 99, 100, 512, 4095, 4096, 4097, int64(len(whole)) - 1} {
		cases[fmt.Sprintf("cut to %d of %d", n, len(whole))] = struct {
			damage func(t *testing.T, path string)
			want   error
		}{cut(n), driver.ErrDamaged}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			c.damage(t, path)
			before, _ := os.ReadFile(path)
			err := use(t, path)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if !strings.Contains(err.Error(), path) {
				t.Errorf("%q does not name the file", err)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the damaged file was changed")
			}
		})
	}
}

// use opens, reads and writes, and returns the first error.
func use(t *testing.T, path string) error {
	s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Create: true})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	if _, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{}}}); err != nil {
		return err
	}
	_, err = s.Commit(t.Context(), put("lock/b", `{}`))
	return err
}

// SQLite has no checksums in its pages, so not every flipped bit is found; but
// none may end the process.
func TestFlippedBytes(t *testing.T) {
	path := place(t)
	whole, err := os.ReadFile(path)
	must(t, err)
	for at := 0; at < len(whole); at += 61 {
		broken := bytes.Clone(whole)
		broken[at] ^= 0xff
		must(t, os.WriteFile(path, broken, 0o600))
		if s, err := sqlitestore.Open(t.Context(), path, nil); err == nil {
			_, _ = s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{}}})
			_ = s.Close()
		}
	}
}

// A store that is replaced while open is not the store others see.
func TestReplacedWhileOpen(t *testing.T) {
	path := place(t)
	s := open(t, path)
	other, err := os.ReadFile(place(t))
	must(t, err)
	must(t, os.Rename(path, path+".old"))
	for _, step := range []func(){func() {}, func() { must(t, os.WriteFile(path, other, 0o600)) }} {
		step()
		if _, err := s.Read(t.Context(), driver.Query{}); !errors.Is(err, driver.ErrDamaged) {
			t.Errorf("read: %v", err)
		}
		if _, err := s.Commit(t.Context(), put("lock/b", `{}`)); !errors.Is(err, driver.ErrDamaged) {
			t.Errorf("commit: %v", err)
		}
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "db"), filepath.Join(dir, "none", "db")} {
		if _, err := sqlitestore.Open(t.Context(), path, nil); !errors.Is(err, driver.ErrMissing) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("looking made %v", left)
	}
}

func TestInspect(t *testing.T) {
	path := place(t)
	r, err := sqlitestore.Inspect(t.Context(), path)
	must(t, err)
	if r.Facts != "layout 1, journal wal" || r.Bytes == 0 || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
	shell(t, path, `UPDATE record SET value = '[]' WHERE key <> ''`)
	if r, err = sqlitestore.Inspect(t.Context(), path); err != nil || len(r.Problems) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
