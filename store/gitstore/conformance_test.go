package gitstore_test

import (
	"testing"

	"github.com/tasklock/tasklock/internal/locktest"
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/gitstore"
)

// harness opens handles of one machine: they share a cache.
func harness() drivertest.Harness {
	return drivertest.Harness{
		Place: func(t testing.TB) string { return newRemote(t) },
		Open: func(t testing.TB, place string) driver.Store {
			s, err := openPlace(place)
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		Processes: true,
		Slow:      true,
	}
}

func TestConformance(t *testing.T) {
	if !long.Racy { // which is to see it
		long.NotShort(t)
	}
	drivertest.Run(t, harness())
}

// The rules of locks are linearizable over this store, each client on a machine
// of its own.
func TestLinearizable(t *testing.T) {
	long.NotShort(t)
	remote := newRemote(t)
	machine := func() *store.Store { return store.New(open(t, remote)) }
	if torture() {
		locktest.Linearizable(t, machine)
	} else {
		locktest.LinearizableSlow(t, machine)
	}
}

// TestConformanceAcrossMachines gives every handle a cache of its own.
func TestConformanceAcrossMachines(t *testing.T) {
	if !torture() {
		t.Skip("long; set TASKLOCK_TORTURE=1")
	}
	h := harness()
	h.Processes = false
	h.Open = func(t testing.TB, place string) driver.Store {
		s, err := gitstore.Open(t.Context(), place, &gitstore.Options{Create: true, Poll: pollOften, Cache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	drivertest.Run(t, h)
}

// Leases that expire are shown, renewed late and taken over as on every store.
func TestExpiry(t *testing.T) {
	t.Parallel() // it mostly waits
	remote := newRemote(t)
	locktest.Expiry(t, func() *store.Store { return store.New(open(t, remote)) })
}
