package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

// stall keeps every durable statement of a store waiting, until the function that
// it returns is called.
func stall(t *testing.T, server *pgtest.Server, place string) (release func()) {
	t.Helper()
	pg, err := pgconn.Connect(t.Context(), server.URL("postgres", "")[:strings.LastIndexByte(server.URL("postgres", ""), '&')])
	must(t, err)
	_, err = pg.Exec(t.Context(), "BEGIN; ALTER SEQUENCE "+schemaOf(place)+".synced RESTART").ReadAll()
	must(t, err)
	release = func() { _ = pg.Close(context.Background()) }
	t.Cleanup(release)
	return release
}

// waitsToLast waits until n sessions wait for their durable statement.
func waitsToLast(t *testing.T, server *pgtest.Server, n int) {
	t.Helper()
	pgtest.Eventually(t, "durable statements that wait", func() bool {
		return server.SQL(t, "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'relation'") == fmt.Sprint(n)
	})
}

func held(t *testing.T, s driver.Store, key string) driver.Snapshot {
	t.Helper()
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{key}})
	must(t, err)
	return snap
}

// While a commit waits for the log others see it, get the turn and are refused at
// once. Nobody hears of success before the log is synced.
func TestTurnIsFreeBeforeTheSync(t *testing.T) { inBothWays(t, turnIsFreeBeforeTheSync) }

func turnIsFreeBeforeTheSync(t *testing.T, begin func(driver.Store)) {
	server := pgtest.Start(t)
	place := server.Place()
	a, b := open(t, place), open(t, place)
	_, err := a.Commit(t.Context(), put("lock/first", `{}`))
	must(t, err)
	begin(a)
	begin(b)
	release := stall(t, server, place)
	type outcome struct {
		rev int64
		err error
	}
	done := make(chan outcome, 2)
	for i, s := range []driver.Store{a, b} {
		go func() {
			rev, err := s.Commit(t.Context(), put(fmt.Sprint("lock/", i), `{}`))
			done <- outcome{rev, err}
		}()
		waitsToLast(t, server, i+1)
	}
	c := open(t, place)
	for _, key := range []string{"lock/0", "lock/1"} {
		if snap := held(t, c, key); len(snap.Records) != 1 {
			t.Errorf("%s is not seen", key)
		}
	}
	refusal := put("lock/0", `{}`)
	refusal.Guards = []driver.Guard{{Key: "lock/0"}}
	_, err = c.Commit(t.Context(), refusal)
	must(t, err, driver.ErrConflict)
	if len(done) > 0 {
		t.Errorf("a commit was acknowledged before its durable statement: %+v", <-done)
	}
	release()
	for range 2 {
		if out := <-done; out.err != nil || out.rev == 0 {
			t.Errorf("%+v", out)
		}
	}
}

// A refused commit leaves nothing in the log.
func TestRefusalSyncsNothing(t *testing.T) { inBothWays(t, refusalSyncsNothing) }

func refusalSyncsNothing(t *testing.T, begin func(driver.Store)) {
	server := pgtest.Start(t, "autovacuum = off")
	place := server.Place()
	s := open(t, place)
	_, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	refusal := put("lock/a", `{}`)
	refusal.Guards = []driver.Guard{{Key: "lock/a"}}
	raised := put("lock/a", `{}`)
	raised.Floor = 100
	_, err = s.Commit(t.Context(), raised) // without a durable statement
	must(t, err)
	begin(s)
	_, err = s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	release := stall(t, server, place) // a durable statement would wait for ever
	defer release()
	for range 3 {
		_, err = s.Commit(t.Context(), refusal)
		must(t, err, driver.ErrConflict)
	}
}

// Whatever goes wrong after the commit leaves its outcome unknown: it is neither
// done nor refused, and nobody sends it again.
func TestTroubleAfterTheCommit(t *testing.T) { inBothWays(t, troubleAfterTheCommit) }

func troubleAfterTheCommit(t *testing.T, begin func(driver.Store)) {
	server := pgtest.Start(t)
	for name, trouble := range map[string]func(schema string){
		"the session is ended": func(string) {
			server.SQL(t, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted")
		},
		"the statement is cancelled": func(string) {
			server.SQL(t, "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted")
		},
	} {
		t.Run(name, func(t *testing.T) {
			place := server.Place()
			s := open(t, place)
			begin(s)
			before, err := s.Commit(t.Context(), put("lock/a", `{}`))
			must(t, err)
			release := stall(t, server, place)
			done := make(chan error, 1)
			go func() {
				_, err := s.Commit(t.Context(), put("lock/a", `{"n":2}`))
				done <- err
			}()
			waitsToLast(t, server, 1)
			trouble(schemaOf(place))
			unknown(t, <-done)
			if snap := held(t, s, "lock/a"); snap.Rev != before+1 || snap.Records[0].Rev != before+1 {
				t.Errorf("revision %d after %d: it was sent again", snap.Rev, before)
			}
			release()
			_, err = s.Commit(t.Context(), put("lock/a", `{"n":3}`))
			must(t, err)
		})
	}
	for name, gone := range map[string]string{
		"the right is gone":    "REVOKE ALL ON SEQUENCE @.synced FROM worker",
		"the sequence is gone": "DROP SEQUENCE @.synced",
	} {
		t.Run(name, func(t *testing.T) {
			s, schema := asWorker(t, server)
			begin(s)
			_, err := s.Commit(t.Context(), put("lock/a", `{}`))
			must(t, err)
			server.SQL(t, strings.ReplaceAll(gone, "@", schema))
			_, err = s.Commit(t.Context(), put("lock/a", `{"n":2}`))
			unknown(t, err)
			_, err = s.Commit(t.Context(), put("lock/a", `{"n":3}`)) // on a new connection, with a message
			must(t, err)
		})
	}
}

// asWorker opens a new store as a role that may use it, as the documentation says.
func asWorker(t *testing.T, server *pgtest.Server) (s *pgstore.Store, schema string) {
	t.Helper()
	place := server.Place()
	open(t, place)
	schema = schemaOf(place)
	server.SQL(t, strings.ReplaceAll(`DO $$ BEGIN CREATE ROLE worker LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
		GRANT USAGE ON SCHEMA @ TO worker; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA @ TO worker;
		GRANT UPDATE ON ALL SEQUENCES IN SCHEMA @ TO worker`, "@", schema))
	return openWith(t, pgtest.URL(server.Addr(), "worker", "postgres", schema), pgstore.Options{}), schema
}

func unknown(t *testing.T, err error) {
	t.Helper()
	if err == nil || driver.Refusal(err) || errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrNoTurn) || errors.Is(err, driver.ErrFull) || errors.Is(err, driver.ErrUntouched) {
		t.Errorf("error %v, want an unknown outcome", err)
	}
}

// A role that may neither change the sequence nor write messages waits for the log
// in its turn, as all did before.
func TestRolesWithoutDurableStatement(t *testing.T) {
	server := pgtest.Start(t)
	s, schema := asWorker(t, server)
	_, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	must(t, s.Close())
	server.SQL(t, "REVOKE ALL ON SEQUENCE "+schema+".synced FROM worker; REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text), pg_logical_emit_message(boolean, text, bytea) FROM PUBLIC")
	place := pgtest.URL(server.Addr(), "worker", "postgres", schema)
	s = openWith(t, place, pgstore.Options{})
	stall(t, server, place) // it has no durable statement that could wait
	_, err = s.Commit(t.Context(), put("lock/a", `{"n":2}`))
	must(t, err)
}

// After a crash revisions go on far above all that anybody may have seen, once,
// and after a restart without a crash right where they were.
func TestLeapAfterCrash(t *testing.T) {
	server := pgtest.Start(t)
	place, last := server.Place(), int64(0)
	goesOn := func(by int64) {
		t.Helper()
		rev, err := open(t, place).Commit(t.Context(), put("lock/a", `{}`))
		must(t, err)
		if rev != last+by {
			t.Errorf("revision %d after %d, want %d more", rev, last, by)
		}
		last = rev
	}
	goesOn(1)
	must(t, server.Restart("fast"))
	goesOn(1)
	for range 2 {
		must(t, server.Restart("immediate"))
		goesOn(1<<20 + 1)
		goesOn(1)
	}
	must(t, server.Restart("fast"))
	goesOn(1)
}

// An upgrade after a crash, before anybody has committed, does not hide the crash.
func TestUpgradeAfterCrash(t *testing.T) {
	server := pgtest.Start(t)
	place := server.Place()
	last, err := open(t, place).Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	server.SQL(t, "UPDATE "+schemaOf(place)+".record SET value = jsonb_set(value::jsonb, '{version}', '5') WHERE key = ''")
	must(t, server.Restart("immediate"))
	s := openWith(t, place, pgstore.Options{Upgrade: true})
	closed, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	must(t, s.Upgrade(t.Context()))
	rev, err := open(t, place).Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	if closed <= last+1<<20 || rev <= closed {
		t.Errorf("revisions %d before the crash, then %d, and %d after the upgrade", last, closed, rev)
	}
}

// If somebody has made the table life a logged one, no crash empties it, and
// nobody would leap. Then nothing is seen that a crash can take back.
func TestLoggedLife(t *testing.T) { inBothWays(t, loggedLife) }

func loggedLife(t *testing.T, begin func(driver.Store)) {
	server := pgtest.Start(t, "wal_writer_delay = 10s")
	place := server.Place()
	a, b := open(t, place), open(t, place)
	begin(a)
	before, err := a.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	server.SQL(t, "ALTER TABLE "+schemaOf(place)+".life SET LOGGED")
	stall(t, server, place)
	done := make(chan error, 1)
	go func() {
		_, err := a.Commit(t.Context(), put("lock/a", `{"n":2}`))
		done <- err
	}()
	waitsToLast(t, server, 1)
	if snap := held(t, b, "lock/a"); snap.Rev != before+1 {
		t.Errorf("revision %d is seen after %d", snap.Rev, before)
	}
	must(t, server.Restart("immediate"))
	unknown(t, <-done)
	if snap := held(t, b, "lock/a"); snap.Rev != before+1 {
		t.Errorf("revision %d was seen; after the crash the store is at %d and will give it out again", before+1, snap.Rev)
	}
}

// An upgrade gives the new objects the rights that roles have on the records.
func TestUpgradeCopiesRights(t *testing.T) {
	server := pgtest.Start(t)
	_, schema := asWorker(t, server)
	server.SQL(t, strings.ReplaceAll(`DROP TABLE @.life; DROP SEQUENCE @.synced; CREATE ROLE owner; GRANT CREATE, USAGE ON SCHEMA @ TO owner; ALTER TABLE @.record OWNER TO owner;
		UPDATE @.record SET value = jsonb_set(value::jsonb, '{version}', '4') WHERE key = ''`, "@", schema))
	must(t, openWith(t, server.URL("postgres", schema), pgstore.Options{Upgrade: true}).Upgrade(t.Context()))
	if got := server.SQL(t, strings.ReplaceAll(`SELECT bool_and(has_table_privilege(r, '@.life', p)) AND bool_and(has_sequence_privilege(r, '@.synced', 'UPDATE'))
		FROM unnest('{owner,worker}'::text[]) r, unnest('{SELECT,INSERT,UPDATE,DELETE}'::text[]) p`, "@", schema)); got != "t" {
		t.Errorf("owner and worker have their rights: %s", got)
	}
	s := openWith(t, pgtest.URL(server.Addr(), "worker", "postgres", schema), pgstore.Options{})
	_, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
}

// What nobody has acknowledged yet is unsure, and no longer when it is synced.
func TestUnsureUntilSynced(t *testing.T) { inBothWays(t, unsureUntilSynced) }

func unsureUntilSynced(t *testing.T, begin func(driver.Store)) {
	server := pgtest.Start(t, "wal_writer_delay = 10s")
	place := server.Place()
	a, b := open(t, place), open(t, place)
	begin(a)
	_, err := a.Commit(t.Context(), put("lock/first", `{}`))
	must(t, err)
	release := stall(t, server, place)
	done := make(chan error, 1)
	go func() {
		_, err := a.Commit(t.Context(), put("lock/a", `{}`))
		done <- err
	}()
	waitsToLast(t, server, 1)
	server.SQL(t, "SELECT pg_logical_emit_message(false, 'test', 'not synced')") // in case the log was
	if !held(t, b, "lock/a").Unsure {
		t.Error("sure of what is not synced")
	}
	release()
	must(t, <-done)
	if held(t, a, "lock/a").Unsure {
		t.Error("unsure of what was acknowledged")
	}
}
