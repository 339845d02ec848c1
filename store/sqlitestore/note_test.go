package sqlitestore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

// A left is the files of a store that was in use until its process went: the
// last commits are in the log alone.
type left map[string][]byte

// leave makes a store, commits three times and goes.
func leave(t *testing.T) left {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store", "db")
	if s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Create: true}); err != nil {
		t.Fatal(err)
	} else {
		must(t, s.Close())
	}
	for range 3 {
		if got := run(t, "write", path); got != "ok" {
			t.Fatal(got)
		}
	}
	l := left{}
	for _, name := range []string{"db", "db-wal", "db.d/last"} {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
		must(t, err)
		l[name] = b
	}
	return l
}

// place puts the files into a folder, without those that are nil.
func (l left) place(t *testing.T, dir string) string {
	t.Helper()
	must(t, os.RemoveAll(dir))
	must(t, os.MkdirAll(filepath.Join(dir, "db.d"), 0o700))
	for name, b := range l {
		if b != nil {
			must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
		}
	}
	return filepath.Join(dir, "db")
}

func (l left) with(name string, b []byte) left {
	m := left{name: b}
	for k, v := range l {
		if k != name {
			m[k] = v
		}
	}
	return m
}

const lastRev = 3 // of what leave leaves

// trueOrLost reads and writes: what was committed is there, or the store says
// that it is lost. No revision is given out twice.
func trueOrLost(t *testing.T, path, what string) {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, nil)
	if errors.Is(err, driver.ErrDamaged) {
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer func() { _ = s.Close() }()
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/child"}})
	switch {
	case errors.Is(err, driver.ErrDamaged):
	case err != nil:
		t.Fatalf("%s: read: %v", what, err)
	case snap.Rev != lastRev || len(snap.Records) != 1 || snap.Records[0].Rev != lastRev:
		t.Fatalf("%s: at revision %d with %v", what, snap.Rev, snap.Records)
	}
	switch rev, err := s.Commit(t.Context(), put("lock/new", `{}`)); {
	case errors.Is(err, driver.ErrDamaged):
	case err != nil:
		t.Fatalf("%s: commit: %v", what, err)
	case rev <= lastRev:
		t.Fatalf("%s: revision %d was given out twice", what, rev)
	}
}

// Whatever byte of the log is wrong, and wherever it is cut, the store tells
// the truth or that commits are lost.
func TestDamagedLog(t *testing.T) {
	l := leave(t)
	log := l["db-wal"]
	step := 211
	if long.Asked() { // all of them take about eight minutes
		step = max(1, int(2/long.Factor()))
	}
	dir := filepath.Join(t.TempDir(), "store")
	offset := rand.IntN(step)
	for at, told := 0, time.Now(); at < len(log); at++ {
		if at%step != offset && at != len(log)-1 && at > 40 {
			continue
		}
		if time.Since(told) > time.Minute {
			told = time.Now()
			t.Logf("%d of %d bytes", at, len(log))
		}
		broken := bytes.Clone(log)
		broken[at] ^= 1 << (at % 8)
		trueOrLost(t, l.with("db-wal", broken).place(t, dir), fmt.Sprintf("byte %d of %d flipped", at, len(log)))
		trueOrLost(t, l.with("db-wal", log[:at]).place(t, dir), fmt.Sprintf("cut to %d of %d", at, len(log)))
	}
	trueOrLost(t, l.place(t, dir), "nothing wrong")
}

// A store whose log is gone says so, and what to type; from then on it is above
// everything that it gave out.
func TestLostLog(t *testing.T) {
	path := leave(t).with("db-wal", nil).place(t, filepath.Join(t.TempDir(), "store"))
	err := use(t, path)
	if !errors.Is(err, driver.ErrDamaged) || !strings.Contains(err.Error(), "tasklock init --raise --store sqlite:"+path) {
		t.Fatalf("got %v", err)
	}
	if _, err := sqlitestore.Inspect(t.Context(), path); !errors.Is(err, driver.ErrDamaged) {
		t.Errorf("inspect: %v", err)
	}
	s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Raise: true})
	must(t, err)
	defer func() { _ = s.Close() }()
	snap, err := s.Read(t.Context(), driver.Query{})
	if err != nil || snap.Rev != lastRev {
		t.Fatalf("at %d, %v", snap.Rev, err)
	}
	rev, err := s.Commit(t.Context(), put("lock/a", `{}`))
	if err != nil || rev <= lastRev {
		t.Fatalf("revision %d, %v", rev, err)
	}
	if err := use(t, path); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A note is only proof of what it says: without it, or with that of another
// database, or with one that is behind or torn, nobody is alarmed.
func TestNotesThatProveNothing(t *testing.T) {
	l, other := leave(t), leave(t)
	torn := bytes.Clone(l["db.d/last"])
	torn[20] ^= 0x40
	behind := bytes.Clone(l["db.d/last"])
	for name, n := range map[string][]byte{"missing": nil, "another's": other["db.d/last"], "torn": torn, "cut": l["db.d/last"][:20], "empty": {}, "same": behind} {
		t.Run(name, func(t *testing.T) {
			path := l.with("db.d/last", n).place(t, filepath.Join(t.TempDir(), "store"))
			if err := use(t, path); err != nil {
				t.Error(err)
			}
			s := open(t, path)
			snap, err := s.Read(t.Context(), driver.Query{})
			if err != nil || snap.Rev != lastRev+1 {
				t.Errorf("at %d, %v", snap.Rev, err)
			}
		})
	}
	t.Run("another database", func(t *testing.T) { // which is behind the note
		fresh, err := os.ReadFile(place(t))
		must(t, err)
		path := l.with("db", fresh).with("db-wal", nil).place(t, filepath.Join(t.TempDir(), "store"))
		if err := use(t, path); err != nil {
			t.Error(err)
		}
	})
}

// The note is written anew where it was lost, so that the next loss is seen.
func TestNoteComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	path := leave(t).place(t, dir)
	must(t, os.RemoveAll(path+".d"))
	if got := run(t, "write", path); got != "ok" {
		t.Fatal(got)
	}
	must(t, os.Remove(path+"-wal"))
	_ = os.Remove(path + "-shm")
	if got := run(t, "read", path); !strings.HasPrefix(got, "damaged") {
		t.Errorf("read: %s", got)
	}
}

// A database that is made where another was begins above it.
func TestNewDatabaseBesideANote(t *testing.T) {
	path := leave(t).with("db", nil).with("db-wal", nil).place(t, filepath.Join(t.TempDir(), "store"))
	s := open(t, path)
	rev, err := s.Commit(t.Context(), put("lock/a", `{}`))
	if err != nil || rev <= 1<<32 {
		t.Errorf("revision %d, %v", rev, err)
	}
	if err := use(t, path); err != nil {
		t.Error(err)
	}
}

// Files that are taken away under a holder: whoever comes afterwards and the
// holder never both write.
func TestLogRemovedUnderAHolder(t *testing.T) {
	for name, files := range map[string][]string{"log": {"-wal"}, "memory": {"-shm"}, "both": {"-wal", "-shm"}} {
		for _, stored := range []bool{false, true} { // is all of the log in the database?
			t.Run(fmt.Sprintf("%s %v", name, stored), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "store", "db")
				s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Create: true})
				must(t, err)
				defer func() { _ = s.Close() }()
				before, err := s.Commit(t.Context(), put("lock/a", `{}`))
				must(t, err)
				if stored {
					shell(t, path, "PRAGMA wal_checkpoint(FULL)")
				}
				for _, f := range files {
					must(t, os.Remove(path+f))
				}
				other := run(t, "write", path)
				rev, err := s.Commit(t.Context(), put("lock/b", `{}`))
				if err == nil || !errors.Is(err, driver.ErrDamaged) {
					t.Errorf("the holder writes on: revision %d after %d, %v", rev, before, err)
				}
				if _, err := s.Read(t.Context(), driver.Query{}); other == "ok" && !errors.Is(err, driver.ErrDamaged) {
					t.Errorf("the holder reads on, although another wrote: %v", err)
				}
				if other != "ok" && !strings.HasPrefix(other, "damaged") {
					t.Errorf("the other: %s", other)
				}
			})
		}
	}
}

// A note has the checksum that other versions of tasklock compute with package crc64.
func TestNoteChecksum(t *testing.T) {
	last := leave(t)["db.d/last"]
	body, sum := last[:len(last)-8], last[len(last)-8:]
	if want := crc64.Checksum(body, crc64.MakeTable(crc64.ECMA)); binary.BigEndian.Uint64(sum) != want {
		t.Errorf("the note ends with %x, want %x", sum, want)
	}
}
