package main

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"cirello.io/pglock"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

// postgres compares pairs with what PostgreSQL gives and with pglock, on servers
// of its own with fsync on, all through TCP: on the disk as it is, and where each
// sync takes 2 ms longer, as on the disk of a cloud.
func (b *bench) postgres() {
	fast, err := pgtest.New()
	check(err)
	defer fast.Close()
	b.postgresPairs(fast, "fsync on", map[string]float64{"1 in one process": 0.5, "16 in one process": 0.55})
	b.wakeupPostgres(fast.Place())
	b.joining("PostgreSQL", openPostgres(fast.Place()), 1000, 5*time.Second)
	library := slowSync()
	defer os.RemoveAll(filepath.Dir(library))
	slow, err := pgtest.Preloaded(library)
	check(err)
	defer slow.Close()
	b.postgresPairs(slow, "a sync takes 2 ms", map[string]float64{"1 in one process": 0.9, "16 processes": 0.5})
}

// slowSync builds the library that makes syncs slow, where the server's user can
// read it.
func slowSync() string {
	dir, err := os.MkdirTemp("", "tasklock-slowsync-")
	check(err)
	check(os.Chmod(dir, 0o755))
	library := filepath.Join(dir, "slowsync.so")
	out, err := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", library, "raw/slowsync.c", "-ldl").CombinedOutput()
	if err != nil {
		check(fmt.Errorf("gcc: %w: %s", err, out))
	}
	return library
}

// postgresPairs makes pairs on a server. aims has shares of pglock's rate.
func (b *bench) postgresPairs(server *pgtest.Server, what string, aims map[string]float64) {
	plain := fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", server.Addr())
	db := openSQL(plain)
	defer db.Close()
	_, err := db.Exec("CREATE TABLE raw (key text PRIMARY KEY, owner text); CREATE TABLE rows (key text PRIMARY KEY); INSERT INTO rows SELECT 'key' || n FROM generate_series(0, 99) n")
	check(err)
	peer := openPeer(db)
	check(peer.CreateTable())
	place := server.Place()
	st, bare := store.New(openPostgres(place)), openPostgres(server.Place())
	compare := func(who string, all []figures) {
		b.section(fmt.Sprintf("PostgreSQL, %s, %s: pairs", what, who))
		theirs, ours := all[len(all)-2], all[len(all)-1]
		if aim := aims[who]; aim > 0 {
			b.beside(all[:len(all)-1])
			b.atLeast(ours, theirs, aim)
		} else {
			b.beside(all)
			b.note("", fmt.Sprintf("%.2f × pglock", ours.rate/theirs.rate))
		}
	}
	for _, n := range []int{1, 16} {
		each := func(name string, do func(key string)) way {
			return goroutines(name, n, func(i int) { do(fmt.Sprint("key", i)) })
		}
		compare(fmt.Sprintf("%d in one process", n), inTurns(
			each("upsert and delete", func(key string) { rawPair(db, key) }),
			each("BEGIN, FOR UPDATE, COMMIT: no lease, one sync", func(key string) { rowPair(db, key) }),
			each("driver, one row each", func(key string) { barePair(bare, key) }),
			each("pglock", func(key string) { peerPair(peer, key) }),
			each("acquire and release, audited", func(key string) { pair(st, key, key) })))
	}
	theirs, end := workers("pglock", 16, "pglock", plain)
	defer end()
	ours, end := workers("acquire and release, audited", 16, "postgres", place)
	defer end()
	compare("16 processes", inTurns(theirs, ours))
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
