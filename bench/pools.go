package main

import (
	"fmt"
	"path/filepath"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
)

// pools compares a pool that has a slot for each worker with a key for each worker.
func (b *bench) pools() {
	b.poolPairs("SQLite", func(name string) driver.Store {
		return open(filepath.Join(b.fresh("pools-"+name), "tasklock.db"))
	})
	server, err := pgtest.New()
	check(err)
	defer server.Close()
	b.poolPairs("PostgreSQL", func(string) driver.Store { return openPostgres(server.Place()) })
}

// poolWorkers is how many share a pool, and how many slots it has.
const poolWorkers = 16

// poolPairs makes pairs on a pool and on separate keys. Workers of the library keep
// to their slots; whoever calls once, as a command does, draws one.
func (b *bench) poolPairs(where string, fresh func(name string) driver.Store) {
	b.section(fmt.Sprintf("A pool of %d slots, %d workers in one process, %s: pairs", poolWorkers, poolWorkers, where))
	all := inTurns(
		libraryPairs("separate keys, library", fresh("keys"), func(i int) string { return fmt.Sprint("key", i) }),
		libraryPairs("one pool, library", fresh("pool"), func(int) string { return "pool:p" }),
		barePairs("separate keys, single calls", fresh("bare-keys"), func(i int) string { return fmt.Sprint("key", i) }),
		barePairs("one pool, single calls", fresh("bare-pool"), func(int) string { return "pool:p" }))
	b.note(all[0].name, all[0].String())
	b.timesAtMost(all[1], all[0], 1.3)
	b.note(all[2].name, all[2].String())
	b.note(all[3].name, fmt.Sprintf("%.2f × the time of %s (%s)", all[2].rate/all[3].rate, all[2].name, all[3]))
}

// timesAtMost is a row whose aim is a multiple of another way's time for a call.
func (b *bench) timesAtMost(f, of figures, aim float64) {
	ratio := of.rate / f.rate
	b.row(f.name, fmt.Sprintf("%.2f × the time of %s (%s)", ratio, of.name, f), fmt.Sprintf("<= %.2f × the time", aim), ratio <= aim)
}

// setPool gives the store the pool of the workers.
func setPool(st *store.Store) {
	_, err := lease.SetPool(ctx, st, lease.SetPoolRequest{Name: "p", Slots: poolWorkers, By: "bench"})
	check(err)
}

// libraryPairs has a Locker for each worker, as if each was a process.
func libraryPairs(name string, d driver.Store, key func(worker int) string) way {
	st := store.New(d)
	setPool(st)
	var lockers []*lock.Locker
	for i := range poolWorkers {
		lockers = append(lockers, lock.New(st, &lock.Options{Owner: fmt.Sprint("worker", i)}))
	}
	return goroutines(name, poolWorkers, func(i int) {
		l, err := lockers[i].Acquire(ctx, key(i), nil)
		check(err)
		check(l.Release(ctx))
	})
}

// barePairs has workers that remember nothing.
func barePairs(name string, d driver.Store, key func(worker int) string) way {
	st := store.New(d)
	setPool(st)
	return goroutines(name, poolWorkers, func(i int) { pair(st, fmt.Sprint("worker", i), key(i)) })
}
