package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/internal/locktest"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

func harness() drivertest.Harness {
	return drivertest.Harness{
		Place: func(t testing.TB) string { return filepath.Join(t.TempDir(), "store", "tasklock.db") },
		Open: func(t testing.TB, place string) driver.Store {
			s, err := sqlitestore.Open(t.Context(), place, &sqlitestore.Options{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Processes: true,
	}
}

func TestConformance(t *testing.T) { drivertest.Run(t, harness()) }

// The rules of locks are linearizable over this store, each client with a
// handle of its own.
func TestLinearizable(t *testing.T) {
	h := harness()
	place := h.Place(t)
	locktest.Linearizable(t, func() *store.Store { return store.New(h.Open(t, place)) })
}

// Leases that expire are shown, renewed late and taken over as on every store.
func TestExpiry(t *testing.T) {
	t.Parallel() // it mostly waits
	h := harness()
	place := h.Place(t)
	locktest.Expiry(t, func() *store.Store { return store.New(h.Open(t, place)) })
}

// History stays bounded under load.
func TestHistoryIsBounded(t *testing.T) {
	h := harness()
	locktest.HistoryIsBounded(t, store.New(h.Open(t, h.Place(t))))
}

func TestWatchLosesNothing(t *testing.T) {
	long.NotShort(t)
	h := harness()
	place := h.Place(t)
	locktest.WatchLosesNothing(t, func() *store.Store { return store.New(h.Open(t, place)) }, 10000)
}

func TestWatchReadsNews(t *testing.T) {
	long.NotShort(t)
	h := harness()
	locktest.WatchReadsNews(t, h.Open(t, h.Place(t)), 10000)
}
