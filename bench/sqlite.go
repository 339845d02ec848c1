package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

var ctx = context.Background()

func open(path string) *sqlitestore.Store {
	s, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{Create: true})
	check(err)
	return s
}

// sqlite compares pairs of one process with the C library.
func (b *bench) sqlite() {
	b.section("SQLite, one process, WAL, synchronous=FULL: pairs (acquire and release) a second")
	dir := b.fresh("sqlite")
	raw := b.raw(dir)
	b.note("raw C, one row each", fmt.Sprintf("%.0f", raw))

	d := open(filepath.Join(dir, "bare", "tasklock.db"))
	value := []byte(`{"owner":"me"}`)
	bare := rate(func() {
		_, err := d.Commit(ctx, driver.Batch{Writes: []driver.Write{{Key: "lock/a", Value: value}}})
		check(err)
		_, err = d.Commit(ctx, driver.Batch{Writes: []driver.Write{{Key: "lock/a"}}})
		check(err)
	})
	b.row("driver, one row each", fmt.Sprintf("%.0f = %.2f of raw", bare, bare/raw), ">= 0.80 of raw", bare >= 0.8*raw)

	st := store.New(open(filepath.Join(dir, "lock", "tasklock.db")))
	one := rate(func() { pair(st, "me", "key") })
	b.note("lock: acquire and release, audited", fmt.Sprintf("%.0f = %.2f of raw", one, one/raw))
	many := b.together(st, 64)
	b.row("the same from 64 goroutines", fmt.Sprintf("%.0f = %.2f of raw", many, many/raw), "> 1 of raw", many > raw)
}

func (b *bench) raw(dir string) float64 {
	exe := filepath.Join(dir, "raw")
	if out, err := exec.Command("gcc", "-O2", "-o", exe, "raw/pairs.c", "-lsqlite3").CombinedOutput(); err != nil {
		check(fmt.Errorf("%w: %s", err, out))
	}
	out, err := exec.Command(exe, filepath.Join(dir, "raw.db"), fmt.Sprint(length.Seconds())).Output()
	check(err)
	n, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	check(err)
	return n
}

func pair(st *store.Store, owner, key string) {
	g, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{key}, Owner: owner})
	check(err)
	_, err = lease.Release(ctx, st, lease.ReleaseRequest{Owner: owner, Keys: []string{key}, Lease: g.LeaseID})
	check(err)
}

// together makes pairs on different keys from many goroutines.
func (b *bench) together(st *store.Store, n int) float64 {
	var total atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for i := range n {
		wg.Go(func() {
			key := fmt.Sprint("key", i)
			for time.Since(start) < length {
				pair(st, key, key)
				total.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(total.Load()) / time.Since(start).Seconds()
}
