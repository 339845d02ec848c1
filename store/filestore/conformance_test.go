package filestore_test

import (
	"path/filepath"
	"testing"

	"github.com/tasklock/tasklock/internal/locktest"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
)

func harness() drivertest.Harness {
	return drivertest.Harness{
		Place: func(t testing.TB) string { return filepath.Join(t.TempDir(), "store") },
		Open: func(t testing.TB, place string) driver.Store {
			s, err := openLimited(t.Context(), place)
			must(t, err)
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

// The same with a journal that starts over after every few commits.
func TestConformanceShortJournal(t *testing.T) {
	long.NotShort(t) // the suite a second time
	t.Setenv(envLimit, "1500")
	drivertest.Run(t, harness())
}

// Leases that expire are shown, renewed late and taken over as on every store.
func TestExpiry(t *testing.T) {
	long.NotShort(t)
	t.Parallel() // it mostly waits
	h := harness()
	place := h.Place(t)
	locktest.Expiry(t, func() *store.Store { return store.New(h.Open(t, place)) })
}

func TestWatchLosesNothing(t *testing.T) {
	long.NotShort(t)
	h := harness()
	place := h.Place(t)
	locktest.WatchLosesNothing(t, func() *store.Store { return store.New(h.Open(t, place)) }, 600)
}

func TestWatchReadsNews(t *testing.T) {
	long.NotShort(t)
	h := harness()
	locktest.WatchReadsNews(t, h.Open(t, h.Place(t)), 3000)
}
