package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

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
	b.section("SQLite, one process, WAL, synchronous=FULL: pairs (acquire and release)")
	dir := b.fresh("sqlite")
	exe := filepath.Join(dir, "pairs")
	if out, err := exec.Command("gcc", "-O2", "-o", exe, "raw/pairs.c", "-lsqlite3").CombinedOutput(); err != nil {
		check(fmt.Errorf("%w: %s", err, out))
	}
	raw := func(name, file string, batches []driver.Batch) (way, func()) {
		statements := filepath.Join(dir, file+".sql")
		check(os.WriteFile(statements, []byte(sqlOf(batches)), 0o600))
		return separate(name, exec.Command(exe, filepath.Join(dir, file+".db"), statements))
	}
	value := []byte(`{"owner":"me"}`)
	oneRow := []driver.Batch{{Writes: []driver.Write{{Key: "lock/a", Value: value}}}, {Writes: []driver.Write{{Key: "lock/a"}}}}
	least, endLeast := raw("raw C, one row each", "least", oneRow)
	defer endLeast()
	same, endSame := raw("raw C, the rows of a pair", "same", batchesOfAPair(dir))
	defer endSame()

	bare := open(filepath.Join(dir, "bare", "tasklock.db"))
	st := store.New(open(filepath.Join(dir, "lock", "tasklock.db")))
	many := store.New(open(filepath.Join(dir, "many", "tasklock.db")))
	all := inTurns(least, same,
		goroutines("driver, one row each", 1, func(int) {
			for _, batch := range oneRow {
				_, err := bare.Commit(ctx, batch)
				check(err)
			}
		}),
		goroutines("acquire and release, audited", 1, func(int) { pair(st, "me", "key") }),
		goroutines("the same from 64 goroutines", 64, func(i int) { pair(many, fmt.Sprint("key", i), fmt.Sprint("key", i)) }))
	b.beside(all[:2])
	b.atLeast(all[2], all[0], 0.8)
	b.atLeast(all[3], all[1], 0.8)
	b.atLeast(all[4], all[1], 1)
}

// batchesOfAPair are the commits of an acquire and a release.
func batchesOfAPair(dir string) []driver.Batch {
	k := &keeping{Store: open(filepath.Join(dir, "kept", "tasklock.db"))}
	st := store.New(k)
	pair(st, "me", "key") // the first one also describes the store
	k.batches = nil
	pair(st, "me", "key")
	return k.batches
}

// keeping keeps what is committed.
type keeping struct {
	driver.Store
	batches []driver.Batch
}

func (k *keeping) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	k.batches = append(k.batches, b)
	return k.Store.Commit(ctx, b)
}

// sqlOf writes the same rows as our driver, one statement a line, with the row that
// has the revision. Each pair has events of its own.
func sqlOf(batches []driver.Batch) string {
	var sql strings.Builder
	put := func(key, value string) {
		fmt.Fprintf(&sql, "REPLACE INTO record VALUES (%s, 1, 1, 1, 'a domain of the usual length', '%s')\n", key, strings.ReplaceAll(value, "'", "''"))
	}
	for i, b := range batches {
		sql.WriteString("BEGIN IMMEDIATE\n")
		for _, w := range b.Writes {
			key := "'" + w.Key + "'"
			if strings.HasPrefix(w.Key, "event/") {
				key = fmt.Sprintf("printf('event/%%020d-%d', ?1)", i)
			}
			if w.Value == nil {
				fmt.Fprintf(&sql, "DELETE FROM record WHERE key = %s\n", key)
			} else {
				put(key, string(w.Value))
			}
		}
		put("''", `{"lock":1,"lease":1,"event":1}`)
		sql.WriteString("COMMIT\n")
	}
	return sql.String()
}

func pair(st *store.Store, owner, key string) {
	g, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{key}, Owner: owner})
	check(err)
	_, err = lease.Release(ctx, st, lease.ReleaseRequest{Owner: owner, Keys: []string{key}, Lease: g.LeaseID})
	check(err)
}
