package sqlitestore

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tasklock/tasklock/store/driver"
)

func openAt(t *testing.T, path string) *Store {
	s, err := Open(t.Context(), path, &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func commit(t *testing.T, s *Store, guards []driver.Guard, writes ...driver.Write) int64 {
	t.Helper()
	rev, err := s.Commit(t.Context(), driver.Batch{Guards: guards, Writes: writes})
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// A commit does not look at records that nobody can have changed since it saw
// them, and a caller that guards everything is answered without the database.
func TestMemorySparesReads(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "tasklock.db"))
	q := driver.Query{Keys: []string{"lock/a", "queue/a"}}
	if _, err := s.Read(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	selects := 0 // SQLite asks when it prepares a statement, which is at its first use
	err := s.conns.writer.SetAuthorizer(sqlite.AuthorizeFunc(func(a sqlite.Action) sqlite.AuthResult {
		if a.Type() == sqlite.OpSelect {
			selects++
		}
		return sqlite.AuthResultOK
	}))
	if err != nil {
		t.Fatal(err)
	}
	rev := int64(0)
	for i := range 5 {
		// The last commit has a guard that nobody has looked at.
		guards := []driver.Guard{{Key: "lock/a", Rev: rev}, {Key: "queue/a"}, {Key: fmt.Sprint("event/", i)}}[:2+i/4]
		before := selects
		rev = commit(t, s, guards, driver.Write{Key: "lock/a", Value: []byte(`{"n":1}`)})
		if known := i < 4; i > 0 && (selects == before) != known {
			t.Errorf("commit %d prepared %d queries", i, selects-before)
		}
		s.conns.main.Lock() // nobody can read through this connection, and a second one would be opened
		q.Since, q.Guarded = 1, true
		snap, err := s.Read(t.Context(), q)
		s.conns.main.Unlock()
		if err != nil || !snap.Old || len(snap.Records) != 1 || snap.Records[0].Rev != rev || s.conns.crowded.Load() {
			t.Fatalf("commit %d: guarded answer %v, %v", i, snap, err)
		}
	}
}

// What another connection changes counts at once, also if that was not tasklock:
// a person may delete a row, which changes no revision.
func TestMemoryEndsWithForeignChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasklock.db")
	s := openAt(t, path)
	rev := commit(t, s, nil, driver.Write{Key: "lock/a", Value: []byte(`{"n":1}`)})
	person, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer person.Close()
	if err := sqlitex.ExecuteTransient(person, "DELETE FROM record WHERE key = 'lock/a'", nil); err != nil {
		t.Fatal(err)
	}
	_, err = s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: rev}}, Writes: []driver.Write{{Key: "lock/b", Value: []byte(`{}`)}}})
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("a commit did not notice a deleted row: %v", err)
	}
	if snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}}); err != nil || len(snap.Records) > 0 {
		t.Errorf("a read did not notice a deleted row: %v %v", snap, err)
	}
	commit(t, s, []driver.Guard{{Key: "lock/a"}}, driver.Write{Key: "lock/a", Value: []byte(`{"n":2}`)})
}

// A waiter that was woken knows what has changed: its commit needs no further look.
func TestMemoryAfterAWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasklock.db")
	s, other := openAt(t, path), openAt(t, path)
	rev := commit(t, other, nil, driver.Write{Key: "lock/a", Value: []byte(`{}`)})
	q := driver.Query{Keys: []string{"lock/a", "queue/a"}}
	if _, err := s.Read(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	commit(t, other, nil, driver.Write{Key: "lock/a"})
	if err := s.Wait(t.Context(), []driver.Guard{{Key: "lock/a", Rev: rev}}); err != nil {
		t.Fatal(err)
	}
	q.Since, q.Guarded = 1, true
	if snap, err := s.Read(t.Context(), q); err != nil || !snap.Old || len(snap.Records) > 0 {
		t.Errorf("after the wait: %v, %v", snap, err)
	}
}

// However much a process writes and reads at once, it remembers little, and nothing
// that it has overwritten.
func TestMemoryIsBounded(t *testing.T) {
	s := openAt(t, filepath.Join(t.TempDir(), "tasklock.db"))
	first := commit(t, s, nil, driver.Write{Key: "lock/0", Value: []byte(`{}`)})
	var writes []driver.Write
	var keys []string
	for i := range driver.MaxWrites {
		keys = append(keys, fmt.Sprint("lock/", i))
		writes = append(writes, driver.Write{Key: keys[i], Value: []byte(`{}`)})
	}
	commit(t, s, nil, writes...)
	if n := len(s.memory.seen); n > maxMemory {
		t.Errorf("after a commit: %d records", n)
	}
	_, err := s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: "lock/0", Rev: first}}, Writes: writes[:1]})
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("an overwritten record counts: %v", err)
	}
	if _, err := s.Read(t.Context(), driver.Query{Keys: keys}); err != nil || len(s.memory.seen) > maxMemory {
		t.Errorf("after a read: %d records, %v", len(s.memory.seen), err)
	}
}

// A commit does not look for records that it adds: SQLite says whether they were
// there. If one of them was, none of the others stays.
func TestAddsAllOrNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasklock.db")
	s, other := openAt(t, path), openAt(t, path)
	value := []byte(`{"n":1}`)
	rev := commit(t, other, nil, driver.Write{Key: "event/b", Value: value})
	batch := driver.Batch{
		Guards: []driver.Guard{{Key: "event/a"}, {Key: "event/b"}, {Key: "event/c"}},
		Writes: []driver.Write{{Key: "event/a", Value: value}, {Key: "event/b", Value: []byte(`{"n":2}`)}, {Key: "event/c", Value: value}},
	}
	for range 2 { // the second time it remembers
		if _, err := s.Commit(t.Context(), batch); !errors.Is(err, driver.ErrConflict) {
			t.Fatalf("got %v, want a conflict", err)
		}
		for _, s := range []*Store{s, other} {
			snap, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "event/"}}})
			if err != nil || len(snap.Records) != 1 || snap.Records[0].Rev != rev || string(snap.Records[0].Value) != string(value) || snap.Rev != rev {
				t.Errorf("got %+v, %v; want event/b alone as it was", snap, err)
			}
		}
	}
	batch.Guards[1].Rev = rev
	if next, err := s.Commit(t.Context(), batch); err != nil || next != rev+1 {
		t.Errorf("got revision %d, %v, want %d", next, err, rev+1)
	}
}

// The same among the batches of one transaction, which the others let succeed.
func TestGroupAddsAllOrNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasklock.db")
	s, other := openAt(t, path), openAt(t, path)
	value := []byte(`{"n":1}`)
	commit(t, other, nil, driver.Write{Key: "event/b", Value: value})
	add := func(keys ...string) *driver.Pending {
		p := &driver.Pending{Ctx: t.Context()}
		for _, key := range keys {
			p.Batch.Guards = append(p.Batch.Guards, driver.Guard{Key: key})
			p.Batch.Writes = append(p.Batch.Writes, driver.Write{Key: key, Value: value})
		}
		return p
	}
	group := []*driver.Pending{add("lock/a"), add("event/a", "event/b"), add("event/a"), add("lock/a", "event/c")}
	s.apply(group)
	for i, conflict := range []bool{false, true, false, true} {
		if got := errors.Is(group[i].Err, driver.ErrConflict); got != conflict || !conflict && group[i].Err != nil {
			t.Errorf("batch %d: got %v, want a conflict: %v", i, group[i].Err, conflict)
		}
	}
	if group[2].Rev != group[0].Rev+1 {
		t.Errorf("got revisions %d and %d", group[0].Rev, group[2].Rev)
	}
	snap, err := other.Read(t.Context(), driver.Query{Keys: []string{"event/a", "event/b", "event/c", "lock/a"}})
	if err != nil || len(snap.Records) != 3 || snap.Rev != group[2].Rev {
		t.Errorf("got %+v, %v; want event/a, event/b and lock/a", snap, err)
	}
}
