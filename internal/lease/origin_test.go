package lease_test

import (
	"errors"
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// A key that came with further names is one lock under all of them, also when a
// task gets one of the names as its id.
func TestAliasesOfALock(t *testing.T) {
	st := store.New(memstore.New())
	acquire := func(key, owner string) error {
		_, err := lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{key}, Owner: owner})
		return err
	}
	free := func(key, owner string) {
		t.Helper()
		if _, err := lease.Release(t.Context(), st, lease.ReleaseRequest{Keys: []string{key}, Owner: owner}); err != nil {
			t.Error(err)
		}
	}
	held := func(key, by string) {
		t.Helper()
		var e *lease.HeldError
		if err := acquire(key, "stranger"); !errors.As(err, &e) || e.Owner != by {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := acquire("taken/name", "other"); err != nil {
		t.Fatal(err)
	}
	r := lease.AcquireRequest{Keys: []string{"v1-1.0-parse"}, Owner: "session"}
	_, err := lease.AcquireFrom(t.Context(), st, r, lease.Origin{Aliases: []string{"v1/1.0-parse", "taken/name"}})
	if err != nil {
		t.Fatal(err)
	}
	held("v1-1.0-parse", "session")
	held("v1/1.0-parse", "session")
	held("taken/name", "other")
	free("v1/1.0-parse", "session")
	if err := acquire("v1/1.0-parse", "next"); err != nil {
		t.Fatal(err)
	}
	held("v1-1.0-parse", "next")

	_, err = st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { // as package task does
		return lease.SetNames(tx, "v1/1.0-parse", nil, []string{"Parse"})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"v1/1.0-parse", "v1-1.0-parse", "Parse"} {
		held(name, "next")
	}
	free("v1-1.0-parse", "next")
	if err := acquire("v1-1.0-parse", "last"); err != nil {
		t.Fatal(err)
	}
	held("v1/1.0-parse", "last")
	held("Parse", "last")
}
