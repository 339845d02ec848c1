package pgstore_test

import (
	"testing"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store/driver"
)

// remembered is what a handle answers to a caller that guards everything. It is
// asked right after it has noted what it shows: a machine that stops in between
// shows the truth instead, and then the test asks again.
func remembered(t *testing.T, s driver.Store, note func(), keys ...string) driver.Snapshot {
	t.Helper()
	for range 100 {
		note()
		snap, err := s.Read(t.Context(), driver.Query{Keys: keys, Since: 1, Guarded: true})
		must(t, err)
		if snap.Old {
			return snap
		}
	}
	t.Fatal("it remembers nothing")
	return driver.Snapshot{}
}

// A handle remembers what it wrote and read as the server has it: revision, time
// and value. It soon forgets.
func TestMemory(t *testing.T) {
	s := open(t, pgtest.Shared(t).Place())
	rev := int64(0)
	write := func() {
		b := put("lock/a", `{"n":1}`)
		b.Writes = append(b.Writes, driver.Write{Key: "lock/gone"})
		var err error
		rev, err = s.Commit(t.Context(), b)
		must(t, err)
	}
	snap := remembered(t, s, write, "lock/a", "lock/gone")
	fresh := held(t, s, "lock/a")
	if len(snap.Records) != 1 || snap.Rev != rev || snap.Records[0].Rev != rev || !snap.Records[0].Time.Equal(fresh.Records[0].Time) || string(snap.Records[0].Value) != `{"n":1}` {
		t.Errorf("it remembers %+v, written at %d: %+v", snap, rev, fresh)
	}
	if age := snap.Now.Sub(snap.Records[0].Time); age < 0 || age > fresh.Now.Sub(fresh.Records[0].Time) {
		t.Errorf("an age of %v, and then of %v", age, fresh.Now.Sub(fresh.Records[0].Time))
	}
	snap.Records[0].Value[1] = 'x'
	if again := remembered(t, s, func() { held(t, s, "lock/a") }, "lock/a"); string(again.Records[0].Value) != `{"n":1}` {
		t.Errorf("a caller has changed it: %s", again.Records[0].Value)
	}
	pgtest.Eventually(t, "it forgets", func() bool {
		snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}, Since: 1, Guarded: true})
		must(t, err)
		return !snap.Old
	})
}

// What somebody else has changed meanwhile is found out by the guard, and is then
// forgotten. Without the promise of guards nobody gets an old answer.
func TestMemoryIsGuarded(t *testing.T) {
	place := pgtest.Shared(t).Place()
	a, b := open(t, place), open(t, place)
	write := func() {
		_, err := a.Commit(t.Context(), put("lock/a", `{}`))
		must(t, err)
	}
	var rev int64
	snap := remembered(t, a, func() {
		write()
		var err error
		rev, err = b.Commit(t.Context(), put("lock/a", `{"of":"b"}`))
		must(t, err)
	}, "lock/a")
	if snap.Records[0].Rev >= rev {
		t.Fatalf("revision %d, and b wrote %d", snap.Records[0].Rev, rev)
	}
	if got := held(t, a, "lock/a"); got.Old || got.Records[0].Rev != rev {
		t.Errorf("%+v, and b wrote %d", got, rev)
	}
	c := put("lock/b", `{}`)
	c.Guards = []driver.Guard{{Key: "lock/a", Rev: snap.Records[0].Rev}}
	_, err := a.Commit(t.Context(), c)
	must(t, err, driver.ErrConflict)
	got, err := a.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}, Since: 1, Guarded: true})
	must(t, err)
	if got.Old || got.Records[0].Rev != rev {
		t.Errorf("after a conflict it still remembers %+v", got)
	}
}
