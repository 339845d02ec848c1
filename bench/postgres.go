package main

import (
	"database/sql"
	"fmt"
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
	plain := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", server.Addr())
	db := openSQL(plain)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE raw (key text PRIMARY KEY, owner text); CREATE TABLE rows (key text PRIMARY KEY); INSERT INTO rows SELECT 'key' || n FROM generate_series(0, 99) n")
	check(err)
	peer := openPeer(db)
	check(peer.CreateTable())
	place := server.Place()
	st, bare := store.New(openPostgres(place)), openPostgres(server.Place())

	for _, n := range []int{1, 16} {
		b.section(fmt.Sprintf("PostgreSQL, fsync on, %d in one process: pairs", n))
		each := func(name string, do func(key string)) way {
			return goroutines(name, n, func(i int) { do(fmt.Sprint("key", i)) })
		}
		all := inTurns(
			each("upsert and delete", func(key string) { rawPair(db, key) }),
			each("BEGIN, FOR UPDATE, COMMIT: no lease, one sync", func(key string) { rowPair(db, key) }),
			each("pglock", func(key string) { peerPair(peer, key) }),
			each("driver, one row each", func(key string) { barePair(bare, key) }),
			each("acquire and release, audited", func(key string) { pair(st, key, key) }))
		b.beside(all[:4])
		b.atLeast(all[4], all[2], map[int]float64{1: 0.5, 16: 0.55}[n])
	}

	b.section("PostgreSQL, fsync on, 16 processes: pairs")
	theirs, end := workers("pglock", 16, "pglock", plain)
	defer end()
	ours, end := workers("acquire and release, audited", 16, "postgres", place)
	defer end()
	all := inTurns(theirs, ours)
	b.beside(all)
	b.wakeupPostgres(server.Place())
}

func openSQL(url string) *sql.DB {
	db, err := sql.Open("pgx", url)
	check(err)
	db.SetMaxIdleConns(16)
	return db
}

func openPeer(db *sql.DB) *pglock.Client {
	peer, err := pglock.UnsafeNew(db, pglock.WithLeaseDuration(time.Minute), pglock.WithHeartbeatFrequency(0))
	check(err)
	return peer
}

func openPostgres(url string) *pgstore.Store {
	s, err := pgstore.Open(ctx, url, &pgstore.Options{Create: true})
	check(err)
	return s
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
