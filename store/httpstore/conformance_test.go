package httpstore_test

import (
	"testing"

	"github.com/tasklock/tasklock/internal/locktest"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

// harness reaches a store through a server that place starts.
func harness(place func(t testing.TB) string) drivertest.Harness {
	return drivertest.Harness{
		Open:      func(t testing.TB, place string) driver.Store { return opened(t, place) },
		Place:     place,
		Processes: true,
	}
}

// TestConformance holds the driver to the contract, over SQLite with TLS and HTTP/2,
// and over memory with neither.
func TestConformance(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		drivertest.Run(t, harness(func(t testing.TB) string { return serveTLS(t, sqlite(t)) }))
	})
	t.Run("memory", func(t *testing.T) {
		drivertest.Run(t, harness(func(t testing.TB) string { return serve(t, memstore.New()).URL }))
	})
}

// The rules of locks are linearizable over this store, each client with a handle of
// its own.
func TestLinearizable(t *testing.T) {
	url := serveTLS(t, sqlite(t))
	locktest.Linearizable(t, func() *store.Store { return store.New(open(t, url, nil)) })
}

// Leases that expire are shown, renewed late and taken over as on every store.
func TestExpiry(t *testing.T) {
	t.Parallel() // it mostly waits
	url := serve(t, sqlite(t)).URL
	locktest.Expiry(t, func() *store.Store { return store.New(open(t, url, nil)) })
}
