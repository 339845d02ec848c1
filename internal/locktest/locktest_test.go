package locktest_test

import (
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/locktest"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestLinearizable(t *testing.T) {
	for name, o := range map[string]*drivertest.FlakyOptions{
		"directly":      nil,
		"slow":          {Delay: 0.5, MaxDelay: time.Millisecond},
		"requests lost": {Before: 0.2, Read: 0.1},
		"replies lost":  {After: 0.2},
		"late requests": {Late: 0.2, MaxDelay: 30 * time.Millisecond},
		"duplicates":    {Twice: 0.5},
		"old answers":   {Old: 0.8},
		"mixed answers": {Old: 0.9, Mix: 0.7},
		"hardly":        {Before: 0.4, After: 0.3, Read: 0.2},
		"all of it":     {Before: 0.08, After: 0.08, Late: 0.08, Twice: 0.1, Read: 0.05, Old: 0.3, Mix: 0.5, Delay: 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mem, n := memstore.New(), uint64(0)
			locktest.Linearizable(t, func() *store.Store {
				if o == nil {
					return store.New(mem)
				}
				n++
				opts := *o
				opts.Seed = n
				return store.New(drivertest.NewFlaky(mem, opts))
			})
		})
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel() // it mostly waits
	mem := memstore.New()
	locktest.Expiry(t, func() *store.Store { return store.New(mem) })
}

// On a store that is not next door the time is another at each look.
func TestFar(t *testing.T) {
	t.Parallel()
	far := func() func() *store.Store {
		mem := memstore.New()
		return func() *store.Store { return store.New(drivertest.NewFar(t, mem, nil)) }
	}
	locktest.LinearizableSlow(t, far())
	locktest.Expiry(t, far())
}

func TestWatchLosesNothing(t *testing.T) {
	t.Parallel()
	mem := memstore.New()
	locktest.WatchLosesNothing(t, func() *store.Store { return store.New(mem) }, 10_000)
}

func TestWatchReadsNews(t *testing.T) { locktest.WatchReadsNews(t, memstore.New(), 10_000) }
