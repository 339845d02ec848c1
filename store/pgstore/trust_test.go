package pgstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store/driver"
)

// The last bytes of a client's message never come: the server has begun, and
// ends the turn by itself, also if it refuses the commit.
func TestTurnEndsWithoutTheClient(t *testing.T) {
	server := pgtest.Shared(t)
	for name, rev := range map[string]string{"granted": "0", "refused": "99"} {
		t.Run(name, func(t *testing.T) {
			place := server.Place()
			s := open(t, place)
			pg, err := pgconn.Connect(t.Context(), strings.TrimSuffix(place, "&schema="+schemaOf(place)))
			must(t, err)
			defer func() { _ = pg.Close(context.Background()) }()
			f := pg.Frontend()
			f.SendParse(&pgproto3.Parse{Query: "CALL " + schemaOf(place) + `.save(NULL::bigint[], false, 1, '{1}', '{lock/a}', '{` + rev + `}', NULL,
				'{1,1}', '{lock/b,""}', '{"{}","{}"}', '{}', '{}', '{1}', '{",\"lock/\":"}')`})
			f.SendBind(&pgproto3.Bind{})
			f.SendExecute(&pgproto3.Execute{})
			f.Send(&pgproto3.Flush{}) // and no Sync
			must(t, f.Flush())
			for answered := false; !answered; {
				msg, err := f.Receive()
				must(t, err)
				if e, ok := msg.(*pgproto3.ErrorResponse); ok {
					t.Fatal(e.Message)
				}
				_, answered = msg.(*pgproto3.CommandComplete)
			}
			_, err = s.Commit(t.Context(), put("lock/c", `{}`))
			must(t, err)
		})
	}
}

// A value that is not text fails alone: it is refused before it goes down together
// with those of others.
func TestValuesThatAreNotText(t *testing.T) { inBothWays(t, valuesThatAreNotText) }

func valuesThatAreNotText(t *testing.T, begin func(driver.Store)) {
	s := open(t, pgtest.Shared(t).Place())
	begin(s)
	_, err := s.Commit(t.Context(), put("lock/a", "{\"a\":\"\xff\"}"))
	must(t, err, driver.ErrInvalid)
	_, err = s.Commit(t.Context(), put("lock/a", `{"a":"\ud800\u0000"}`))
	must(t, err)
}

// A key that begins like a number is not taken for the end of a revision: the
// revision 1 of 23/x is not the revision 12 of 3/x.
func TestKeysLikeNumbers(t *testing.T) {
	s := open(t, pgtest.Shared(t).Place())
	rev, err := s.Commit(t.Context(), put("23/x", `{}`))
	must(t, err)
	if rev != 1 {
		t.Fatalf("the first revision is %d", rev)
	}
	b := put("lock/b", `{}`)
	b.Guards = []driver.Guard{{Key: "3/x", Rev: 12}, {Key: "23/x"}}
	_, err = s.Commit(t.Context(), b)
	must(t, err, driver.ErrConflict)
}

// If somebody has made the sequence an unlogged one, setting it syncs nothing: then
// nobody hears of success, and new connections write messages.
func TestUnloggedSequence(t *testing.T) { inBothWays(t, unloggedSequence) }

func unloggedSequence(t *testing.T, begin func(driver.Store)) {
	server := pgtest.Start(t, "wal_writer_delay = 10s")
	if server.SQL(t, "SELECT current_setting('server_version_num')::integer >= 150000") == "f" {
		t.Skip("this server has no unlogged sequences")
	}
	place := server.Place()
	s := open(t, place)
	begin(s)
	_, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	server.SQL(t, "ALTER SEQUENCE "+schemaOf(place)+".synced SET UNLOGGED")
	_, err = s.Commit(t.Context(), put("lock/a", `{}`))
	unknown(t, err)
	begin(s)
	_, err = s.Commit(t.Context(), put("lock/b", `{}`))
	must(t, err)
	must(t, server.Restart("immediate"))
	if snap := held(t, open(t, place), "lock/b"); len(snap.Records) != 1 {
		t.Error("what was acknowledged is lost")
	}
}

// Settings that the server reads again while we are connected do not hide the
// warning that a commit is on no standby, and change no isolation level.
func TestReloadedSettings(t *testing.T) { inBothWays(t, reloadedSettings) }

func reloadedSettings(t *testing.T, begin func(driver.Store)) {
	primary, standby := pair(t)
	s := open(t, primary.Place())
	begin(s)
	for _, set := range []string{"client_min_messages = error", "default_transaction_isolation = serializable", "synchronous_commit = local"} {
		primary.SQL(t, "ALTER SYSTEM SET "+set)
	}
	primary.SQL(t, "SELECT pg_reload_conf()")
	pgtest.Eventually(t, "the settings are read", func() bool { return primary.SQL(t, "SHOW client_min_messages") == "error" })
	_, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	must(t, standby.Stop("immediate"))
	done := make(chan error, 1)
	go func() {
		_, err := s.Commit(t.Context(), put("lock/a", `{"n":2}`))
		done <- err
	}()
	pgtest.Eventually(t, "a commit that waits", func() bool { return stuck(t, primary) })
	primary.SQL(t, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	unknown(t, <-done)
}
