package drivertest

import (
	"errors"
	"fmt"

	"github.com/tasklock/tasklock/store/driver"
)

var batchCases = []testCase{
	{name: "all or nothing", run: allOrNothing},
	{name: "batch without writes", run: noWrites},
	{name: "deleting what is not there", run: deleteAbsent},
	{name: "thousand writes in one batch", run: thousandWrites},
	{name: "largest batch", run: largestBatch},
}

func allOrNothing(t *suite) {
	s := t.open()
	old := t.write(s, put("lock/a", `{"v":"old"}`), put("lock/b", `{"v":"old"}`), put("lock/gone", `{"v":"old"}`))
	writes := []driver.Write{
		put("lock/a", `{"v":"new"}`), put("lock/b", `{"v":"new"}`), put("lock/c", `{"v":"new"}`), remove("lock/gone"),
	}

	_, err := s.Commit(t.ctx, driver.Batch{Guards: []driver.Guard{at("lock/a", old), at("lock/b", old-1)}, Writes: writes})
	if !errors.Is(err, driver.ErrConflict) {
		t.Fatalf("Commit with a broken guard: error %v, want ErrConflict", err)
	}
	records := t.scan(s, "lock/")
	t.wantKeys("after the conflict", records, "lock/a", "lock/b", "lock/gone")
	for _, r := range records {
		if r.Rev != old || string(r.Value) != `{"v":"old"}` {
			t.Fatalf("after the conflict: %s at %d holds %s", r.Key, r.Rev, r.Value)
		}
	}

	rev := t.commit(s, driver.Batch{Guards: []driver.Guard{at("lock/a", old), at("lock/b", old)}, Writes: writes})
	records = t.scan(s, "lock/")
	t.wantKeys("after the commit", records, "lock/a", "lock/b", "lock/c")
	for _, r := range records {
		if r.Rev != rev || string(r.Value) != `{"v":"new"}` {
			t.Fatalf("after the commit at %d: %s at %d holds %s", rev, r.Key, r.Rev, r.Value)
		}
	}
}

func noWrites(t *suite) {
	s := t.open()
	t.commit(s, driver.Batch{}) // nothing to check, nothing to do: fine
	rev := t.write(s, put("lock/a", `{}`))
	last := t.write(s, put("lock/b", `{}`))

	held := t.commit(s, driver.Batch{Guards: []driver.Guard{at("lock/a", rev), at("path/", 0)}})
	if held < last {
		t.Fatalf("guards checked at revision %d, after revision %d was acknowledged", held, last)
	}
	_, err := s.Commit(t.ctx, driver.Batch{Guards: []driver.Guard{at("lock/a", last)}})
	if !errors.Is(err, driver.ErrConflict) {
		t.Fatalf("broken guard without writes: error %v, want ErrConflict", err)
	}
	t.holds(s, at("lock/a", rev), at("lock/b", last))
	if next := t.write(s, put("lock/a", `{}`)); next <= held {
		t.Fatalf("a commit got revision %d after the guards held at %d", next, held)
	}
}

func deleteAbsent(t *suite) {
	s := t.open()
	last := t.write(s, put("lock/a", `{}`))
	rev := t.write(s, remove("lock/none"))
	if rev <= last {
		t.Fatalf("a commit that deletes nothing got revision %d, the one before it %d", rev, last)
	}
	t.commit(s, driver.Batch{Guards: []driver.Guard{at("lock/none", 0)}, Writes: []driver.Write{remove("lock/none")}})
	t.wantKeys("lock/", t.scan(s, "lock/"), "lock/a")
}

func thousandWrites(t *suite) {
	s := t.open()
	writes := make([]driver.Write, driver.MaxWrites)
	for i := range writes {
		writes[i] = put(fmt.Sprintf("task/%04d", i), fmt.Sprintf(`{"n":%d}`, i))
	}
	rev := t.write(s, writes...)
	records := t.scan(s, "task/")
	if len(records) != len(writes) {
		t.Fatalf("%d records of %d", len(records), len(writes))
	}
	for i, r := range records {
		if r.Key != writes[i].Key || string(r.Value) != string(writes[i].Value) || r.Rev != rev {
			t.Fatalf("record %d: %s at %d holds %s, want %s at %d holding %s",
				i, r.Key, r.Rev, r.Value, writes[i].Key, rev, writes[i].Value)
		}
	}
	for i := range writes {
		writes[i] = remove(writes[i].Key)
	}
	t.write(s, writes...)
	t.wantKeys("after deleting all", t.scan(s, "task/"))
}

// largestBatch is at every limit at once.
func largestBatch(t *suite) {
	s := t.open()
	var b driver.Batch
	for i := range driver.MaxGuards {
		b.Guards = append(b.Guards, at(fmt.Sprintf("lock/%d", i), 0))
	}
	left := driver.MaxBatch
	add := func(w driver.Write) {
		b.Writes = append(b.Writes, w)
		left -= len(w.Key) + len(w.Value)
	}
	add(put(longKey("task/", driver.MaxKey), `{}`))
	for i := range 14 {
		add(put(fmt.Sprintf("task/big%02d", i), jsonOfSize(driver.MaxValue)))
	}
	for len(b.Writes) < driver.MaxWrites-1 {
		add(put(fmt.Sprintf("task/small%04d", len(b.Writes)), `{}`))
	}
	add(put("task/rest", jsonOfSize(left-len("task/rest"))))

	rev := t.commit(s, b)
	size := 0
	for _, r := range t.scan(s, "task/") {
		size += len(r.Key) + len(r.Value)
		if r.Rev != rev {
			t.Fatalf("%.20q is at revision %d, want %d", r.Key, r.Rev, rev)
		}
	}
	if size != driver.MaxBatch {
		t.Fatalf("%d bytes came back of %d", size, driver.MaxBatch)
	}
}
