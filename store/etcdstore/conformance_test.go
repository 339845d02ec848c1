package etcdstore_test

import (
	"testing"

	"github.com/tasklock/tasklock/internal/locktest"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/etcdstore"
)

// TestConformance holds the driver to the contract, on one member.
func TestConformance(t *testing.T) {
	c := one(t)
	drivertest.Run(t, drivertest.Harness{
		Open: func(t testing.TB, place string) driver.Store {
			s, err := etcdstore.Open(t.Context(), place, &etcdstore.Options{Create: true})
			must(t, err)
			return s
		},
		Place:     func(testing.TB) string { return c.URL(newPrefix()) },
		Processes: true,
	})
}

// The rules of locks are linearizable over this store, each client with a handle
// of its own, on three members.
func TestLinearizable(t *testing.T) {
	url := three(t).URL(newPrefix())
	locktest.Linearizable(t, func() *store.Store { return store.New(open(t, url)) })
}

// Leases that expire are shown, renewed late and taken over as on every store.
func TestExpiry(t *testing.T) {
	t.Parallel() // it mostly waits
	url := one(t).URL(newPrefix())
	locktest.Expiry(t, func() *store.Store { return store.New(open(t, url)) })
}

// History stays bounded under load.
func TestHistoryIsBounded(t *testing.T) {
	locktest.HistoryIsBounded(t, store.New(open(t, one(t).URL(newPrefix()))))
}

func TestWatchLosesNothing(t *testing.T) {
	url := one(t).URL(newPrefix())
	locktest.WatchLosesNothing(t, func() *store.Store { return store.New(open(t, url)) }, 1000)
}

func TestWatchReadsNews(t *testing.T) {
	locktest.WatchReadsNews(t, open(t, one(t).URL(newPrefix())), 10_000)
}
