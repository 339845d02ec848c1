package filestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/filestore"
)

// damages are what can happen to a file.
var damages = map[string]func(t *testing.T, path string){
	"empty":   func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
	"garbage": func(t *testing.T, path string) { must(t, os.WriteFile(path, []byte("what is this\n\n{}\n"), 0o600)) },
	"zeros": func(t *testing.T, path string) {
		fi, err := os.Stat(path)
		must(t, err)
		must(t, os.WriteFile(path, make([]byte, fi.Size()), 0o600))
	},
	"longer": func(t *testing.T, path string) {
		data, err := os.ReadFile(path)
		must(t, err)
		must(t, os.WriteFile(path, append(data, '\n'), 0o600))
	},
	"huge": func(t *testing.T, path string) { must(t, os.Truncate(path, 1<<26)) },
	"folder": func(t *testing.T, path string) {
		must(t, os.Remove(path))
		must(t, os.Mkdir(path, 0o700))
	},
}

// Damage is an answer of its own, and what is damaged is left as it is.
func TestDamagedRecord(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			path := filepath.Join(dir, filestore.FileOf("lock/a"))
			damage(t, path)
			refused(t, dir, path, driver.ErrDamaged)
		})
	}
	t.Run("newer", func(t *testing.T) {
		dir := place(t)
		path := filepath.Join(dir, filestore.FileOf("lock/a"))
		edit(t, path, func(b []byte) []byte { return bytes.Replace(b, []byte("record 1"), []byte("record 2"), 1) })
		refused(t, dir, path, driver.ErrNewer)
	})
	t.Run("of another key", func(t *testing.T) {
		dir := place(t)
		path := filepath.Join(dir, filestore.FileOf("lock/c"))
		must(t, os.Rename(filepath.Join(dir, filestore.FileOf("lock/a")), path))
		refused(t, dir, path, driver.ErrDamaged)
	})
	t.Run("of the future", func(t *testing.T) {
		dir, path := place(t), ""
		other := place(t)
		_, err := open(t, other).Commit(t.Context(), driver.Batch{Floor: 1000, Writes: put("lock/a", `{}`).Writes})
		must(t, err)
		path = filepath.Join(dir, filestore.FileOf("lock/a"))
		must(t, os.Rename(filepath.Join(other, filestore.FileOf("lock/a")), path))
		refused(t, dir, path, driver.ErrDamaged)
	})
	for _, foreign := range []string{"records/lock/notes.TXT", "records/lock/a~", "records/Lock", "records/lock/.swp"} {
		t.Run("foreign "+foreign, func(t *testing.T) {
			dir := place(t)
			path := filepath.Join(dir, foreign)
			must(t, os.WriteFile(path, []byte("x"), 0o600))
			refused(t, dir, path, driver.ErrDamaged)
		})
	}
}

// refused requires that reading and writing the record at path is refused with
// an error that names it, that nothing is changed, that other records are not
// concerned, and that Inspect lists it with a next step.
func refused(t *testing.T, dir, path string, want error) {
	t.Helper()
	before, _ := os.ReadFile(path)
	err := use(t, dir)
	if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want %v naming %s", err, want, path)
	}
	s := open(t, dir)
	if key := "lock/a"; path == filepath.Join(dir, filestore.FileOf(key)) {
		for _, b := range []driver.Batch{
			put(key, `{}`),
			{Writes: []driver.Write{{Key: key}}},
			{Guards: []driver.Guard{{Key: key}}, Writes: put("lock/z", `{}`).Writes},
		} {
			if _, err := s.Commit(t.Context(), b); !errors.Is(err, want) {
				t.Errorf("commit %v: %v", b, err)
			}
		}
	}
	if _, err := s.Commit(t.Context(), put("task/other", `{}`)); err != nil {
		t.Errorf("another record: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the damaged file was changed")
	}
	r, err := filestore.Inspect(t.Context(), dir)
	must(t, err)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], path) || !strings.Contains(r.Problems[0], ";") {
		t.Errorf("problems %q", r.Problems)
	}
}

// A record file that is cut or changed anywhere is refused.
func TestEveryByteOfARecord(t *testing.T) {
	dir := place(t)
	path := filepath.Join(dir, filestore.FileOf("lock/a"))
	whole, err := os.ReadFile(path)
	must(t, err)
	s := open(t, dir)
	check := func(what string, content []byte) {
		t.Helper()
		must(t, os.WriteFile(path, content, 0o600))
		_, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
		if !errors.Is(err, driver.ErrDamaged) && !errors.Is(err, driver.ErrNewer) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for n := range whole {
		check(fmt.Sprintf("cut to %d", n), whole[:n])
		for _, flip := range []byte{1, 0x20, 0xff} {
			broken := bytes.Clone(whole)
			broken[n] ^= flip
			check(fmt.Sprintf("byte %d ^ %x", n, flip), broken)
		}
	}
	must(t, os.WriteFile(path, whole, 0o600))
	if _, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}}); err != nil {
		t.Fatal(err)
	}
}

// Whatever happens to the journal or the state, the answer is a refusal or
// the truth.
func TestEveryByteOfTheJournalAndState(t *testing.T) {
	long.NotShort(t)
	dir := place(t)
	want, rev, err := all(t, dir)
	must(t, err)
	copies := map[string][]byte{}
	for _, name := range []string{"journal", "state"} {
		copies[name], err = os.ReadFile(filepath.Join(dir, name))
		must(t, err)
	}
	refusals := 0
	check := func(what, name string, content []byte) {
		t.Helper()
		for n, b := range copies {
			must(t, os.WriteFile(filepath.Join(dir, n), b, 0o600))
		}
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		got, gotRev, err := all(t, dir)
		if err != nil {
			refusals++
			if !driver.Refusal(err) || !strings.Contains(err.Error(), dir) {
				t.Fatalf("%s: %v", what, err)
			}
			return
		}
		if !maps.Equal(got, want) || gotRev != rev {
			t.Fatalf("%s: %v at %d, want %v at %d", what, got, gotRev, want, rev)
		}
	}
	flip := func(name string, at int) {
		broken := bytes.Clone(copies[name])
		broken[at] ^= 0xff
		check(fmt.Sprintf("%s byte %d", name, at), name, broken)
	}
	step := 1
	if testing.Short() {
		step = 3
	}
	for n := 0; n < len(copies["state"]); n += step {
		check(fmt.Sprintf("state cut to %d", n), "state", copies["state"][:n])
		flip("state", n)
	}
	if refusals > 0 {
		t.Errorf("%d refusals although the journal was whole", refusals)
	}
	for at := 60; at < 5200; at += 17 * step {
		flip("journal", at)
	}
	for _, n := range []int{0, 1, 63, 64, 70, 4095, 4096, 4100, 4200, 4300, 4400, 4500, len(copies["journal"]) - 1} {
		check(fmt.Sprintf("journal cut to %d", n), "journal", copies["journal"][:n])
	}
	if refusals < 20/step {
		t.Errorf("only %d refusals: the case has shown nothing", refusals)
	}
	check("journal of zeros", "journal", make([]byte, len(copies["journal"])))
	check("journal of text", "journal", []byte("dear diary\n"))
}

func TestDamagedJournal(t *testing.T) {
	for name, damage := range damages {
		if name == "longer" || name == "huge" {
			continue // what comes after the halves does not matter
		}
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			path := filepath.Join(dir, "journal")
			damage(t, path)
			before, _ := os.ReadFile(path)
			for range 2 {
				if err := use(t, dir); !errors.Is(err, driver.ErrDamaged) || !strings.Contains(err.Error(), path) {
					t.Errorf("got %v", err)
				}
				_ = os.Remove(filepath.Join(dir, "state")) // again without its help
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the damaged file was changed")
			}
		})
	}
	t.Run("missing", func(t *testing.T) {
		dir := place(t)
		must(t, os.Remove(filepath.Join(dir, "journal")))
		if err := use(t, dir); !errors.Is(err, driver.ErrDamaged) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("newer", func(t *testing.T) {
		dir := place(t)
		edit(t, filepath.Join(dir, "journal"), func(b []byte) []byte { return bytes.Replace(b, []byte("format 1"), []byte("format 2"), 1) })
		if err := use(t, dir); !errors.Is(err, driver.ErrNewer) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("last commit gone", func(t *testing.T) { // with the state, only its file can tell
		dir := place(t)
		edit(t, filepath.Join(dir, "journal"), func(b []byte) []byte {
			i := bytes.LastIndex(b, []byte("TLJE"))
			b[i+40] ^= 1
			return b
		})
		must(t, os.Remove(filepath.Join(dir, "state")))
		if err := use(t, dir); !errors.Is(err, driver.ErrDamaged) {
			t.Errorf("got %v", err)
		}
	})
}

// What is damaged in a file and still in the journal can be had again.
func TestMend(t *testing.T) {
	dir := place(t)
	want, _, err := all(t, dir)
	must(t, err)
	path := filepath.Join(dir, filestore.FileOf("lock/a"))
	must(t, os.Truncate(path, 0))
	r, err := filestore.Inspect(t.Context(), dir)
	must(t, err)
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], filepath.Join(dir, "state")) {
		t.Fatalf("%q", r.Problems)
	}
	must(t, os.Remove(path))
	must(t, os.Remove(filepath.Join(dir, "state")))
	got, _, err := all(t, dir)
	must(t, err)
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A store that is replaced while open is not the store others see; a state
// that is removed is made again.
func TestReplacedWhileOpen(t *testing.T) {
	dir := place(t)
	a, b := open(t, dir), open(t, dir)
	for range 3 {
		must(t, os.Remove(filepath.Join(dir, "state")))
		for _, s := range []*filestore.Store{a, b} {
			rev, err := s.Commit(t.Context(), put("lock/n", `{}`))
			must(t, err)
			for _, o := range []*filestore.Store{a, b} {
				snap, err := o.Read(t.Context(), driver.Query{Keys: []string{"lock/n"}})
				must(t, err)
				if snap.Rev != rev || len(snap.Records) != 1 || snap.Records[0].Rev != rev {
					t.Fatalf("at %d: %+v", rev, snap)
				}
			}
		}
	}
	other, err := os.ReadFile(filepath.Join(place(t), "journal"))
	must(t, err)
	must(t, os.Rename(filepath.Join(dir, "journal"), filepath.Join(dir, "old")))
	for _, next := range []func(){func() {}, func() { must(t, os.WriteFile(filepath.Join(dir, "journal"), other, 0o600)) }} {
		next()
		if _, err := a.Read(t.Context(), driver.Query{}); !errors.Is(err, driver.ErrDamaged) {
			t.Errorf("read: %v", err)
		}
		if _, err := a.Commit(t.Context(), put("lock/b", `{}`)); !errors.Is(err, driver.ErrDamaged) {
			t.Errorf("commit: %v", err)
		}
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := filestore.Open(t.Context(), path, nil); !errors.Is(err, driver.ErrMissing) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := filestore.Inspect(t.Context(), path); !errors.Is(err, driver.ErrMissing) {
			t.Errorf("inspect %s: %v", path, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("looking made %v", left)
	}
}

func TestInspect(t *testing.T) {
	dir := place(t)
	r, err := filestore.Inspect(t.Context(), dir)
	must(t, err)
	if r.Facts != "layout 1, journal files" || r.Bytes == 0 || r.LogBytes == 0 || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
}

func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, change(data), 0o600))
}
