package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
)

// Two stores and a person with a sqlite3 shell work on one database. Whatever a
// store remembers, and whatever fails: a read shows what the file has, and a commit
// succeeds if and only if its guards hold there.
func TestMemoryTellsTheTruth(t *testing.T) {
	for seed := range long.Loop(t, 10, time.Minute) {
		for name, open := range map[string]func(testing.TB, string) *Store{"log": openSafe, "journal": openUnsafe} {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) { newStrangers(t, uint64(seed), open).work(120) })
		}
	}
}

func openSafe(t testing.TB, path string) *Store {
	s, err := Open(t.Context(), path, &Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

type strangers struct {
	*testing.T
	*rand.Rand
	open   func(testing.TB, string) *Store
	path   string
	stores [2]*Store
	person *sqlite.Conn
	past   []string // what happened
}

func newStrangers(t *testing.T, seed uint64, open func(testing.TB, string) *Store) *strangers {
	w := &strangers{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), open: open, path: filepath.Join(t.TempDir(), "store", "db")}
	for i := range w.stores {
		w.begin(i)
	}
	var err error
	if w.person, err = sqlite.OpenConn(w.path, sqlite.OpenReadWrite); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = w.person.Close()
		for _, s := range w.stores {
			_ = s.Close()
		}
	})
	return w
}

func (w *strangers) begin(i int) {
	w.stores[i] = w.open(w, w.path)
	w.stores[i].conns.writer.SetBusyTimeout(time.Millisecond) // see leave
}

// A file is what the database holds.
type file struct {
	rev     int64
	kind    int64 // of lock/
	records map[string]row
}

type row struct {
	rev   int64
	value string
}

func (w *strangers) look() file {
	w.Helper()
	f := file{records: map[string]row{}}
	err := sqlitex.ExecuteTransient(w.person, "SELECT key, rev, value FROM record", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		if key := s.ColumnText(0); key != "" {
			f.records[key] = row{s.ColumnInt64(1), s.ColumnText(2)}
			return nil
		}
		var kinds map[string]int64
		err := json.Unmarshal([]byte(s.ColumnText(2)), &kinds)
		f.rev, f.kind = s.ColumnInt64(1), kinds["lock/"]
		return err
	}})
	if err != nil {
		w.fail("person: %v", err)
	}
	return f
}

func (w *strangers) fail(format string, args ...any) {
	w.Helper()
	w.Fatalf("%s, after:\n%s", fmt.Sprintf(format, args...), strings.Join(w.past[max(0, len(w.past)-20):], "\n"))
}

func (w *strangers) say(format string, args ...any) {
	w.past = append(w.past, fmt.Sprintf(format, args...))
}

func (w *strangers) sql(format string, args ...any) {
	w.Helper()
	w.say("person: "+format, args...)
	if err := sqlitex.ExecuteTransient(w.person, fmt.Sprintf(format, args...), nil); err != nil {
		w.fail("%v", err)
	}
}

func (w *strangers) key() string { return fmt.Sprintf("lock/%d", w.IntN(4)) }

func (w *strangers) work(steps int) {
	for step := range steps {
		i := w.IntN(2)
		s := w.stores[i]
		switch w.IntN(18) {
		case 0:
			w.sql("DELETE FROM record WHERE key = '%s'", w.key())
		case 1, 2:
			w.sql(`UPDATE record SET value = '{"person":%d}' WHERE key = '%s'`, step, w.key())
		case 3:
			w.sql("%s", []string{"VACUUM", "PRAGMA wal_checkpoint(RESTART)", "PRAGMA wal_checkpoint(TRUNCATE)"}[w.IntN(3)])
		case 4:
			w.fill(s)
		case 5:
			w.leave(s)
		case 6:
			w.say("%d: close and open", i)
			_ = s.Close()
			w.begin(i)
		case 7:
			s.conns.crowded.Store(w.IntN(2) == 0) // whether reads have their own connection
		default:
			w.commit(i, step)
		}
		w.read(w.IntN(2))
	}
}

// fill lets a commit fail in the middle, for want of room.
func (w *strangers) fill(s *Store) {
	full, err := s.conns.writer.pragma("PRAGMA page_count")
	if err == nil {
		_, err = s.conns.writer.pragma("PRAGMA max_page_count=" + full)
	}
	if err != nil {
		w.fail("%v", err)
	}
	var b driver.Batch
	for i := range 4 { // the first one fits
		b.Writes = append(b.Writes, driver.Write{Key: fmt.Sprint("lock/", i), Value: []byte(`{"pad":"` + strings.Repeat("x", i*20_000) + `"}`)})
	}
	_, err = s.Commit(w.Context(), b)
	w.say("full: %v", err)
	if !errors.Is(err, driver.ErrFull) {
		w.fail("committed without room: %v", err)
	}
	if _, err := s.conns.writer.pragma("PRAGMA max_page_count=1000000"); err != nil {
		w.fail("%v", err)
	}
}

// leave lets a caller give up while it waits for the person.
func (w *strangers) leave(s *Store) {
	w.sql("BEGIN IMMEDIATE")
	ctx, cancel := context.WithTimeout(w.Context(), time.Millisecond)
	defer cancel()
	if _, err := s.Commit(ctx, driver.Batch{Writes: []driver.Write{{Key: "lock/0", Value: []byte(`{"left":1}`)}}}); err == nil {
		w.fail("committed in spite of a lock")
	}
	w.sql("ROLLBACK")
}

// commit guards what the store answers to a caller that guards everything, and now
// and then the kind.
func (w *strangers) commit(i, step int) {
	s, before := w.stores[i], w.look()
	q := driver.Query{Keys: []string{w.key(), w.key()}, Since: 1, Guarded: true}
	snap, err := s.Read(w.Context(), q)
	if err != nil {
		w.fail("guarded read: %v", err)
	}
	revs := map[string]int64{}
	for _, r := range snap.Records {
		revs[r.Key] = r.Rev
	}
	holds, b := true, driver.Batch{}
	for _, key := range q.Keys {
		b.Guards = append(b.Guards, driver.Guard{Key: key, Rev: revs[key]})
		holds = holds && before.records[key].rev == revs[key]
	}
	if w.IntN(3) == 0 {
		g := driver.Guard{Key: "lock/", Rev: before.rev - int64(w.IntN(2))}
		b.Guards = append(b.Guards, g)
		holds = holds && before.kind <= g.Rev
	}
	after := maps.Clone(before.records)
	write := driver.Write{Key: w.key()}
	delete(after, write.Key)
	if w.IntN(4) > 0 {
		write.Value = fmt.Appendf(nil, `{"step":%d}`, step)
		after[write.Key] = row{before.rev + 1, string(write.Value)}
	}
	b.Writes = []driver.Write{write}
	rev, err := s.Commit(w.Context(), b)
	w.say("%d: commit %v, %s %s: %d, %v", i, b.Guards, write.Key, write.Value, rev, err)
	switch {
	case holds && (err != nil || rev != before.rev+1 || !maps.Equal(w.look().records, after)):
		w.fail("the guards hold in %v", before)
	case !holds && !errors.Is(err, driver.ErrConflict):
		w.fail("the guards do not hold in %v", before)
	}
}

// read compares what a store says with the file.
func (w *strangers) read(i int) {
	f := w.look()
	q := driver.Query{Keys: []string{w.key(), w.key(), w.key()}, Ranges: []driver.Range{{Prefix: "lock/"}}[:w.IntN(2)]}
	snap, err := w.stores[i].Read(w.Context(), q)
	if err != nil || snap.Rev != f.rev {
		w.fail("%d: read at %d, not %d: %v", i, snap.Rev, f.rev, err)
	}
	count := 0
	for _, key := range q.Keys {
		if f.records[key].rev > 0 {
			count++
		}
	}
	if count += len(q.Ranges) * len(f.records); len(snap.Records) != count {
		w.fail("%d: %d records, not %d", i, len(snap.Records), count)
	}
	for _, r := range snap.Records {
		if is := (row{r.Rev, string(r.Value)}); is != f.records[r.Key] {
			w.fail("%d: read %s as %v, not %v", i, r.Key, is, f.records[r.Key])
		}
	}
}
