package store_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// forgetful answers callers that guard everything as if nothing had been written.
type forgetful struct {
	driver.Store
	asked int
}

func (f *forgetful) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	snap, err := f.Store.Read(ctx, q)
	if f.asked++; q.Guarded {
		snap.Records, snap.Old = nil, true
	}
	return snap, err
}

// A commit on old data conflicts. Nobody has to be in the way for that, so the next
// attempt comes at once.
func TestOldDataIsNoRival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := memstore.New()
		put(t, store.New(mem), "test/a", 1)
		f := &forgetful{Store: mem}
		began := time.Now()
		put(t, store.New(f), "test/a", 2)
		if waited := time.Since(began); waited > 0 || f.asked != 2 {
			t.Errorf("waited %v, read %d times", waited, f.asked)
		}
	})
}
