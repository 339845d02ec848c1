package drivertest

import (
	"fmt"

	"github.com/tasklock/tasklock/store/driver"
)

var revisionCases = []testCase{
	{name: "revisions grow and are the records' own", run: revisionsGrow},
	{name: "revisions are not used again after deletions", run: revisionsNotReused},
	{name: "snapshot has the newest revision", run: snapshotRevision},
	{name: "floor", run: floor},
	{name: "reopen", run: reopen},
	{name: "reopen after everything was deleted", run: reopenEmpty},
}

func revisionsGrow(t *suite) {
	a, b := t.open(), t.open()
	last := int64(0)
	for i := range t.rounds(20) {
		s := []driver.Store{a, b}[i%2]
		rev := t.write(s, put("lock/a", fmt.Sprintf(`{"n":%d}`, i)), put(fmt.Sprintf("task/%d", i), `{}`))
		if rev <= last {
			t.Fatalf("revision %d after %d", rev, last)
		}
		last = rev
		for _, key := range []string{"lock/a", fmt.Sprintf("task/%d", i)} {
			if r := t.get(a, key); r.Rev != rev {
				t.Fatalf("%s written by the commit at %d is at %d", key, rev, r.Rev)
			}
		}
	}
}

func revisionsNotReused(t *suite) {
	s := t.open()
	last := int64(0)
	for i := range t.rounds(20) {
		written := t.write(s, put("lock/a", `{}`))
		deleted := t.write(s, remove("lock/a"))
		if written <= last || deleted <= written {
			t.Fatalf("round %d: written at %d, deleted at %d, the round before ended at %d", i, written, deleted, last)
		}
		last = deleted
	}
}

func snapshotRevision(t *suite) {
	a, b := t.open(), t.open()
	empty := t.read(a, driver.Query{}).Rev
	if empty < 0 {
		t.Fatalf("an empty store is at revision %d", empty)
	}
	check := func(what string, rev int64) {
		t.Helper()
		for _, s := range []driver.Store{a, b} {
			if got := t.read(s, driver.Query{Keys: []string{"lock/other"}}).Rev; got != rev {
				t.Fatalf("after %s at %d the snapshot is at %d", what, rev, got)
			}
		}
	}
	rev := t.write(a, put("lock/a", `{}`))
	if rev <= empty {
		t.Fatalf("the first commit got %d in a store at %d", rev, empty)
	}
	check("a write", rev)
	check("a deletion", t.write(b, remove("lock/a")))
	check("a floor", t.commit(a, driver.Batch{Floor: rev + 1000, Writes: []driver.Write{put("lock/a", `{}`)}}))
}

func floor(t *suite) {
	s := t.open()
	lift := func(floor int64) int64 {
		t.Helper()
		rev := t.commit(s, driver.Batch{Floor: floor, Writes: []driver.Write{put("lock/a", `{}`)}})
		if rev < floor {
			t.Fatalf("floor %d: revision %d", floor, rev)
		}
		if r := t.get(s, "lock/a"); r.Rev != rev {
			t.Fatalf("floor %d: commit at %d, record at %d", floor, rev, r.Rev)
		}
		t.holds(s, at("lock/a", rev))
		return rev
	}
	const high = 1 << 40
	lift(high)
	if next := t.write(s, put("lock/b", `{}`)); next <= high {
		t.Fatalf("revision %d after floor %d", next, int64(high))
	}
	last := t.read(s, driver.Query{}).Rev
	if rev := lift(7); rev <= last {
		t.Fatalf("a floor below the present took the revision from %d to %d", last, rev)
	}
	if rev := t.write(t.open(), put("lock/b", `{}`)); rev <= last {
		t.Fatalf("another handle got revision %d after %d", rev, last)
	}
	lift(1<<53 + 1) // no float64 holds this one
}

func reopen(t *suite) {
	s := t.h.Open(t.TB, t.place)
	first := t.write(s, put("lock/a", `{"n":1}`), put("lock/gone", `{}`))
	last := t.write(s, put("lock/b", `{"n":2}`), remove("lock/gone"))
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}

	s = t.open()
	snap := t.read(s, driver.Query{Ranges: []driver.Range{{Prefix: "lock/"}}})
	t.wantKeys("after reopening", snap.Records, "lock/a", "lock/b")
	if a, b := snap.Records[0], snap.Records[1]; a.Rev != first || b.Rev != last || string(a.Value) != `{"n":1}` {
		t.Fatalf("after reopening: %s at %d, %s at %d, want %d and %d", a.Key, a.Rev, b.Key, b.Rev, first, last)
	}
	if snap.Rev != last {
		t.Fatalf("reopened at revision %d, closed at %d", snap.Rev, last)
	}
	t.holds(s, at("lock/a", first), at("lock/", last))
	if rev := t.write(s, put("lock/a", `{}`)); rev <= last {
		t.Fatalf("revision %d after reopening a store at %d", rev, last)
	}
}

func reopenEmpty(t *suite) {
	s := t.h.Open(t.TB, t.place)
	written := t.write(s, put("lock/a", `{}`))
	deleted := t.commit(s, driver.Batch{Floor: written + 1000, Writes: []driver.Write{remove("lock/a")}})
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}

	s = t.open()
	t.wantKeys("everything", t.scan(s, ""))
	t.conflict(s, at("lock/", written))
	t.holds(s, at("lock/", deleted))
	if rev := t.write(s, put("lock/a", `{}`)); rev <= deleted {
		t.Fatalf("revision %d after %d: the counter restarted", rev, deleted)
	}
}
