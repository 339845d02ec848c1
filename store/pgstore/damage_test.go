package pgstore_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

func refusedTo(t testing.TB, err error, words ...string) {
	t.Helper()
	refused(t, "without the right", err, driver.ErrDenied, words...)
}

// What is not as we write it is damage: never absent, never free.
func TestDamage(t *testing.T) {
	server := pgtest.Shared(t)
	for _, c := range []struct {
		name, sql, says string
		open            bool // seen when it is opened
	}{
		{"table", "DROP TABLE @.record CASCADE", "missing", true},
		{"function", "DROP FUNCTION @.commit", "does not have our tables", false},
		{"column", "ALTER TABLE @.record DROP COLUMN time CASCADE", "does not have our tables", false},
		{"own row", "DELETE FROM @.record WHERE key = ''", "the row with the empty key is missing", true},
		{"list", "UPDATE @.record SET value = '[1]' WHERE key = 'lock/a'", "lock/a is not a JSON object", false},
		{"text", `UPDATE @.record SET value = '"x"' WHERE key = 'lock/a'`, "lock/a is not a JSON object", false},
		{"revision", "UPDATE @.record SET rev = 1000 WHERE key = 'lock/a'", "at revision 1000 and the store at", false},
		{"rewound", "UPDATE @.record SET rev = 0 WHERE key = ''", "and the store at 0", false},
		{"state", "UPDATE @.record SET value = '{\"version\":3,\"line\":1,\"kinds\":[]}' WHERE key = ''", "empty key", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			place := server.Place()
			schema := place[strings.LastIndex(place, "=")+1:]
			s := open(t, place)
			_, err := s.Commit(t.Context(), put("lock/a", `{}`))
			must(t, err)
			server.SQL(t, strings.ReplaceAll(c.sql, "@", schema))
			again, err := pgstore.Open(t.Context(), place, &pgstore.Options{Create: true})
			if c.open {
				refused(t, "open", err, driver.ErrDamaged, c.says)
			} else {
				must(t, err)
				must(t, again.Close())
			}
			_, readErr := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}, Ranges: []driver.Range{{Prefix: "lock/"}}})
			found, err := pgstore.Inspect(t.Context(), place)
			if err == nil && len(found.Problems) == 0 && c.name != "function" && c.name != "state" {
				t.Fatal("Inspect found nothing wrong")
			}
			_, commitErr := s.Commit(t.Context(), driver.Batch{
				Guards: []driver.Guard{{Key: "lock/a", Rev: 1}, {Key: "lock/", Rev: 1}}, Writes: put("lock/b", `{}`).Writes,
			})
			if c.name == "function" || c.name == "state" {
				must(t, readErr)
				if c.name == "function" {
					refused(t, "commit", commitErr, driver.ErrDamaged, c.says)
					return
				}
				_, err := s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: "lock/", Rev: 1}}})
				refused(t, "check", err, driver.ErrDamaged, c.says)
				return
			}
			refused(t, "read", readErr, driver.ErrDamaged, "restore it from a backup")
		})
	}
}

// The store's own row, edited, is damage as well: not an older version, and not
// a store where guards of kinds hold whatever happens.
func TestOwnRow(t *testing.T) {
	server := pgtest.Shared(t)
	for _, value := range []string{
		`{}`, `[]`, `1`, `{"line":1,"kinds":{}}`, `{"version":3,"kinds":{}}`, `{"version":3,"line":"x","kinds":{}}`, `{"version":3,"line":1}`, `{"version":3,"line":1,"kinds":[]}`,
	} {
		place := server.Place()
		schema := place[strings.LastIndex(place, "=")+1:]
		s := open(t, place)
		_, err := s.Commit(t.Context(), put("lock/a", `{}`))
		must(t, err)
		server.SQL(t, "UPDATE "+schema+".record SET value = '"+value+"' WHERE key = ''")
		_, err = pgstore.Open(t.Context(), place, &pgstore.Options{Create: true})
		refused(t, value, err, driver.ErrDamaged, "empty key")
		_, err = pgstore.Inspect(t.Context(), place)
		refused(t, value, err, driver.ErrDamaged, "empty key")
	}
}

// What the own row says of the kinds is ours as well: a commit that is guarded by
// one is not told that it is wrong itself.
func TestOddKinds(t *testing.T) {
	server := pgtest.Shared(t)
	for _, odd := range []string{`"x"`, `1.5`, `1e30`, `99999999999999999999`} {
		place := server.Place()
		schema := place[strings.LastIndex(place, "=")+1:]
		s := open(t, place)
		_, err := s.Commit(t.Context(), put("lock/a", `{}`))
		must(t, err)
		server.SQL(t, `UPDATE `+schema+`.record SET value = jsonb_set(value::jsonb, '{kinds,lock/}', '`+odd+`') WHERE key = ''`)
		guarded := put("lease/a", `{}`)
		guarded.Guards = []driver.Guard{{Key: "lock/", Rev: 1}}
		_, err = s.Commit(t.Context(), guarded)
		refused(t, odd, err, driver.ErrDamaged, "empty key")
		_, err = s.Commit(t.Context(), driver.Batch{Guards: guarded.Guards})
		refused(t, odd, err, driver.ErrDamaged, "empty key")
		found, err := pgstore.Inspect(t.Context(), place)
		if must(t, err); len(found.Problems) != 1 || !strings.Contains(found.Problems[0], "the kind lock/") {
			t.Errorf("%s: Inspect found %q", odd, found.Problems)
		}
	}
}

// A server without timelines cannot tell that it was restored: it is not used.
func TestNoTimelines(t *testing.T) {
	server := pgtest.Shared(t)
	server.SQL(t, "CREATE DATABASE other")
	place := server.URL("other", "tasklock")
	_, err := server.Query("other", "ALTER FUNCTION pg_catalog.pg_current_wal_lsn() RENAME TO none")
	must(t, err)
	_, err = pgstore.Open(t.Context(), place, &pgstore.Options{Create: true})
	refused(t, "no timelines", err, driver.ErrUnsafe, "not the PostgreSQL", "pg_current_wal_lsn")
	_, err = pgstore.Open(t.Context(), place, nil)
	refused(t, "afterwards", err, driver.ErrMissing, "there is no schema")
}

// A schema of an older version is brought up to date by Upgrade and by nobody
// else, since older versions of tasklock refuse it then. One of a newer version is
// left alone.
func TestVersions(t *testing.T) {
	server := pgtest.Shared(t)
	place := server.Place()
	schema := place[strings.LastIndex(place, "=")+1:]
	s := open(t, place)
	rev, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	server.SQL(t, strings.ReplaceAll(`DROP VIEW @.held_locks CASCADE; DROP VIEW @.runs CASCADE;
		UPDATE @.record SET value = jsonb_set(value::jsonb, '{version}', '1') WHERE key = ''`, "@", schema))
	for _, create := range []bool{false, true} {
		_, err := pgstore.Open(t.Context(), place, &pgstore.Options{Create: create})
		refused(t, "older", err, driver.ErrOlder, "version 1 of", "init --upgrade")
	}
	old := openWith(t, place, pgstore.Options{Upgrade: true})
	if snap, err := old.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}}); err != nil || len(snap.Records) != 1 {
		t.Fatalf("before the upgrade: %d records, %v", len(snap.Records), err)
	}
	must(t, old.Upgrade(t.Context()))
	must(t, old.Upgrade(t.Context()))
	must(t, openWith(t, place, pgstore.Options{}).Close())
	server.SQL(t, "SELECT * FROM "+schema+".task_locks")
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
	if err != nil || snap.Rev != rev || len(snap.Records) != 1 {
		t.Fatalf("after the upgrade: revision %d, %d records, %v", snap.Rev, len(snap.Records), err)
	}
	server.SQL(t, strings.ReplaceAll(`UPDATE @.record SET value = jsonb_set(value::jsonb, '{version}', '99') WHERE key = ''`, "@", schema))
	for _, create := range []bool{false, true} {
		_, err := pgstore.Open(t.Context(), place, &pgstore.Options{Create: create})
		refused(t, "newer", err, driver.ErrNewer, "format 99", "upgrade")
	}
}

// A schema with room for us but without our tables, and a database that cannot
// hold our keys.
func TestPlaces(t *testing.T) {
	server := pgtest.Shared(t)
	server.SQL(t, `CREATE SCHEMA "Odd ""Name"""; CREATE TABLE "Odd ""Name""".theirs (n int)`)
	place := server.URL("postgres", "Odd%20%22Name%22")
	_, err := pgstore.Open(t.Context(), place, nil)
	refused(t, "a schema without tables", err, driver.ErrMissing, "there is no schema")
	_, err = open(t, place).Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)

	server.SQL(t, "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	_, err = pgstore.Open(t.Context(), server.URL("latin", "tasklock"), &pgstore.Options{Create: true})
	refused(t, "an encoding", err, driver.ErrUnsafe, "LATIN1", "createdb -E UTF8")
	_, err = pgstore.Open(t.Context(), server.URL("nowhere", "tasklock"), &pgstore.Options{Create: true})
	refused(t, "no database", err, driver.ErrMissing, "createdb -E UTF8 nowhere")
	_, err = pgstore.Open(t.Context(), server.URL("postgres", strings.Repeat("x", 64)), nil)
	refused(t, "a long name", err, driver.ErrInvalid, "63 bytes")
	_, err = pgstore.Open(t.Context(), server.URL("postgres", "pg_mine"), &pgstore.Options{Create: true})
	refused(t, "a name of the server's own", err, driver.ErrInvalid, `unacceptable schema name "pg_mine"`)
	_, err = pgstore.Open(t.Context(), server.URL("postgres", "tasklock&foo=bar"), nil)
	refused(t, "an option that is none", err, driver.ErrInvalid, `unrecognized configuration parameter "foo"`)
	for _, name := range []string{"a'b", "a$$b", `a\b`} { // what our SQL is not quoted for, in every place
		_, err = pgstore.Open(t.Context(), server.URL("postgres", url.QueryEscape(name)), &pgstore.Options{Create: true})
		refused(t, name, err, driver.ErrInvalid, "63 bytes")
	}
}

// No error says the password, wherever it stood and whatever was wrong.
func TestPasswordsAreNotShown(t *testing.T) {
	addr := pgtest.Shared(t).Addr()
	for _, place := range []string{
		"postgres://postgres:s3cr3t@127.0.0.1:1/x",
		"postgres://postgres:s3cr3t@127.0.0.1:port/x",
		"postgres://postgres:s3cr3t@127.0.0.1:99999/x",
		"postgres://nobody:s3cr3t@" + addr + "/x?sslmode=disable",
		"postgres://nobody@" + addr + "/x?sslmode=disable&password=s3cr3t",
		"postgres://postgres@127.0.0.1/x?password=s3cr3t&sslmode=never",
		"postgres://postgres:s3/cr3t@127.0.0.1/x",
		"postgres://postgres:s3%zzcr3t@127.0.0.1/x",
		"postgres://postgres@127.0.0.1/x?password=s3cr3t&connect_timeout=s3cr3t",
		"postgres://postgres:s3cr3t@" + addr + "/x?sslmode=disable&wrong_parameter=1",
		"host=127.0.0.1 port=x password=s3cr3t",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		s, err := pgstore.Open(ctx, place, nil)
		cancel()
		if err == nil {
			_ = s.Close()
			t.Errorf("%s was opened", place)
		} else if strings.Contains(err.Error(), "cr3t") || strings.ContainsAny(err.Error(), "\n\t") {
			t.Errorf("%v", err)
		}
	}
}

// A full disk at the server is an error that says so; when there is room again
// everything is as before.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a small disk to fill")
	}
	server := pgtest.Start(t)
	disk := filepath.Join(server.Dir, "disk")
	must(t, os.Mkdir(disk, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		_ = server.Stop("immediate")
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	s := open(t, server.URL("postgres", "tasklock"))
	_, err := s.Commit(t.Context(), put("lock/a", `{"n":1}`))
	must(t, err)
	must(t, exec.Command("chown", "--reference="+server.Dir, disk).Run())
	must(t, exec.Command("chmod", "700", disk).Run())
	server.SQL(t, "CREATE TABLESPACE small LOCATION '"+disk+"'")
	server.SQL(t, "ALTER TABLE tasklock.record SET TABLESPACE small")
	pad := strings.Repeat("0123456789abcdef", 2000)
	var full error
	n := 0
	for ; full == nil && n < 1000; n++ {
		var b driver.Batch
		for i := range 10 {
			value := []byte(`{"pad":"` + shuffled(pad, n*10+i) + `"}`)
			b.Writes = append(b.Writes, driver.Write{Key: "event/" + string(rune('a'+i)) + strings.Repeat("x", n), Value: value})
		}
		_, full = s.Commit(t.Context(), b)
	}
	if full == nil || driver.Refusal(full) || !strings.Contains(full.Error(), "disk is full") {
		t.Fatalf("after %d commits: %v", n, full)
	}
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
	if err != nil || len(snap.Records) != 1 {
		t.Fatalf("reading from a full disk: %d records, %v", len(snap.Records), err)
	}
	server.SQL(t, "ALTER TABLE tasklock.record SET TABLESPACE pg_default")
	_, err = s.Commit(t.Context(), put("lock/a", `{"n":2}`))
	must(t, err)
}

// shuffled makes a text that cannot be compressed much.
func shuffled(text string, seed int) string {
	b := []byte(text)
	x := uint32(seed)*2654435761 + 12345
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = 'a' + byte(x%26)
	}
	return string(b)
}

// Many find nothing there and make the same schema: all of them get it.
func TestMadeByMany(t *testing.T) {
	server := pgtest.Shared(t)
	for range 10 {
		place := server.Place()
		var makers sync.WaitGroup
		for i := range 12 {
			makers.Go(func() {
				time.Sleep(time.Duration(i) * 2 * time.Millisecond) // some come while it is being made
				s, err := pgstore.Open(t.Context(), place, &pgstore.Options{Create: true})
				if err != nil {
					t.Error(err)
					return
				}
				_ = s.Close()
			})
		}
		makers.Wait()
	}
}
