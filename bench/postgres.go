package main

import (
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cirello.io/pglock"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

// postgres compares pairs with what PostgreSQL gives and with pglock, on a
// server of its own with fsync on, all through TCP.
func (b *bench) postgres() {
	server, err := pgtest.New()
	check(err)
	defer server.Close()
	db, err := sql.Open("pgx", fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", server.Addr()))
	check(err)
	defer db.Close()
	db.SetMaxIdleConns(16)
	_, err = db.Exec("CREATE TABLE raw (key text PRIMARY KEY, owner text); CREATE TABLE rows (key text PRIMARY KEY); INSERT INTO rows SELECT 'key' || n FROM generate_series(0, 99) n")
	check(err)
	peer, err := pglock.UnsafeNew(db, pglock.WithLeaseDuration(time.Minute), pglock.WithHeartbeatFrequency(0))
	check(err)
	check(peer.CreateTable())
	st := store.New(openPostgres(server.Place()))
	bare := openPostgres(server.Place())

	for _, workers := range []int{1, 16} {
		b.section(fmt.Sprintf("PostgreSQL, fsync on, %d in one process: pairs a second", workers))
		r := inTurns(workers,
			func(key string) { rawPair(db, key) },
			func(key string) { rowPair(db, key) },
			func(key string) { peerPair(peer, key) },
			func(key string) { barePair(bare, key) },
			func(key string) { pair(st, key, key) })
		raw, row, other, driver, ours := r[0], r[1], r[2], r[3], r[4]
		b.note("upsert and delete", fmt.Sprintf("%.0f", raw))
		b.note("BEGIN, FOR UPDATE, COMMIT: no lease, one sync", fmt.Sprintf("%.0f = %.2f of raw", row, row/raw))
		b.note("pglock", fmt.Sprintf("%.0f = %.2f of raw", other, other/raw))
		b.note("driver, one row each", fmt.Sprintf("%.0f = %.2f of raw", driver, driver/raw))
		aim := map[int]float64{1: 1.0, 16: 1.5}[workers]
		b.row("lock: acquire and release, audited", fmt.Sprintf("%.0f = %.2f of pglock", ours, ours/other),
			fmt.Sprintf(">= %.1f of pglock", aim), ours >= aim*other)
	}
	b.wakeupPostgres(server.Place())
}

// inTurns measures several ways, a little of each in turn: the disk of a machine
// that others use is fast in one second and slow in the next.
func inTurns(workers int, ways ...func(key string)) []float64 {
	const turns = 20
	rates := make([]float64, len(ways))
	for range turns {
		for i, way := range ways {
			rates[i] += spread(workers, length/turns, way) / turns
		}
	}
	return rates
}

func openPostgres(url string) *pgstore.Store {
	s, err := pgstore.Open(ctx, url, &pgstore.Options{Create: true})
	check(err)
	return s
}

// spread makes pairs on a key for each worker.
func spread(workers int, length time.Duration, one func(key string)) float64 {
	var total atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for i := range workers {
		wg.Go(func() {
			for key := fmt.Sprint("key", i); time.Since(start) < length; total.Add(1) {
				one(key)
			}
		})
	}
	wg.Wait()
	return float64(total.Load()) / time.Since(start).Seconds()
}

func rawPair(db *sql.DB, key string) {
	_, err := db.Exec("INSERT INTO raw VALUES ($1, 'me') ON CONFLICT (key) DO UPDATE SET owner = excluded.owner", key)
	check(err)
	_, err = db.Exec("DELETE FROM raw WHERE key = $1", key)
	check(err)
}

func rowPair(db *sql.DB, key string) {
	tx, err := db.Begin()
	check(err)
	_, err = tx.Exec("SELECT key FROM rows WHERE key = $1 FOR UPDATE", key)
	check(err)
	check(tx.Commit())
}

func peerPair(peer *pglock.Client, key string) {
	l, err := peer.Acquire(key)
	check(err)
	check(peer.Release(l))
}

func barePair(s *pgstore.Store, key string) {
	_, err := s.Commit(ctx, driver.Batch{Writes: []driver.Write{{Key: "lock/" + key, Value: []byte(`{"owner":"me"}`)}}})
	check(err)
	_, err = s.Commit(ctx, driver.Batch{Writes: []driver.Write{{Key: "lock/" + key}}})
	check(err)
}

// wakeupPostgres measures from the release in one process to the grant in
// another.
func (b *bench) wakeupPostgres(url string) {
	b.section("Wake-up of a waiter in another process, PostgreSQL")
	st := store.New(openPostgres(url))
	w := startWaiter(st, "wait-postgres", url)
	p50, p99 := w.delays()
	b.note("release to grant: p50", p50.String())
	b.row("p99", p99.String(), "<= 5ms", p99 <= 5*time.Millisecond)
	w.end()
}

func waitPostgres(url string) { serveWaits(store.New(openPostgres(url))) }
