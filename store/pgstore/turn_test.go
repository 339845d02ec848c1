package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

// holds lets a role that may do nothing but connect take a lock, until the
// function that it returns is called.
func holds(t *testing.T, server *pgtest.Server, lock int64) (pid uint32, release func()) {
	t.Helper()
	pg, err := pgconn.Connect(t.Context(), fmt.Sprintf("postgres://eve@%s/postgres?sslmode=disable&application_name=prank", server.Addr()))
	must(t, err)
	_, err = pg.Exec(t.Context(), fmt.Sprintf("SELECT pg_advisory_lock(%d)", lock)).ReadAll()
	must(t, err)
	release = func() { _ = pg.Close(context.Background()) }
	t.Cleanup(release)
	return pg.PID(), release
}

// Any role that may connect can keep everybody from committing. The error names
// it and says that nothing was written; when it goes they go on.
func TestLocksAreKept(t *testing.T) {
	t.Parallel() // it mostly waits
	server := pgtest.Start(t)
	server.SQL(t, "CREATE ROLE eve LOGIN")
	for name, test := range map[string]func(*testing.T, *pgtest.Server){"turn": turnIsKept, "turn, prepared": turnIsKeptFromPrepared, "create": createIsKept, "upgrade": upgradeIsKept, "listen": listenIsKept} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, server)
		})
	}
}

func turnIsKept(t *testing.T, server *pgtest.Server) {
	keepTurn(t, server, "turn", func(driver.Store) {})
}

func turnIsKeptFromPrepared(t *testing.T, server *pgtest.Server) {
	keepTurn(t, server, "turnprepared", func(s driver.Store) { warm(t, s) })
}

func keepTurn(t *testing.T, server *pgtest.Server, schema string, begin func(driver.Store)) {
	s := openWith(t, server.URL("postgres", schema), pgstore.Options{Create: true, Timeout: time.Minute}) // the server is the first to give up
	begin(s)
	st := store.New(s)
	must(t, increment(t.Context(), st))
	pid, release := holds(t, server, pgstore.Turn(schema))
	err := increment(t.Context(), st)
	if !errors.Is(err, store.ErrUnreachable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("while the turn is kept: %v", err)
	}
	refused(t, "while the turn is kept", err, driver.ErrNoTurn, "nothing was written",
		fmt.Sprintf("process %d of user eve (prank)", pid), fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid))
	if n := strings.Count(err.Error(), "schema "+schema); n != 1 {
		t.Errorf("the place is named %d times: %v", n, err)
	}
	if n := count(t, st); n != 1 {
		t.Errorf("%d count", n)
	}
	release()
	must(t, increment(t.Context(), st))
}

func createIsKept(t *testing.T, server *pgtest.Server) {
	pid, release := holds(t, server, pgstore.Create("new"))
	_, err := pgstore.Open(t.Context(), server.URL("postgres", "new"), &pgstore.Options{Create: true, Timeout: time.Minute})
	refused(t, "while the making is kept", err, driver.ErrNoTurn, fmt.Sprintf("process %d of user eve (prank)", pid))
	release()
	open(t, server.URL("postgres", "new"))
}

// An upgrade waits for a commit under way, which would write the version back that
// it has read.
func upgradeIsKept(t *testing.T, server *pgtest.Server) {
	place := server.URL("postgres", "older")
	s := openWith(t, place, pgstore.Options{Create: true, Upgrade: true, Timeout: time.Minute})
	server.SQL(t, `UPDATE older.record SET value = jsonb_set(value::jsonb, '{version}', '3') WHERE key = ''`)
	pid, release := holds(t, server, pgstore.Turn("older"))
	refused(t, "while the turn is kept", s.Upgrade(t.Context()), driver.ErrNoTurn, fmt.Sprintf("process %d of user eve (prank)", pid))
	release()
	must(t, s.Upgrade(t.Context()))
	open(t, place)
}

// Without the lock of listeners there are no notifications, and waiters look.
func listenIsKept(t *testing.T, server *pgtest.Server) {
	place := server.URL("postgres", "listen")
	s := open(t, place)
	_, release := holds(t, server, pgstore.Listen("listen"))
	defer release()
	rev, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	woken := waiting(t, server, openWith(t, place+"&application_name=waiter", pgstore.Options{Poll: time.Hour}), rev)
	looked(t, server, "waiter")
	_, err = s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	if err := <-woken; !errors.Is(err, driver.ErrConflict) {
		t.Error(err)
	}
}

// looked waits until a session of that name has read.
func looked(t *testing.T, server *pgtest.Server, name string) {
	t.Helper()
	pgtest.Eventually(t, "a look", func() bool {
		return server.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT 0::bigint%' AND state = 'idle' AND application_name = '"+name+"'") != "0"
	})
}

// Behind a pooler a waiter looks once a second, however seldom it
// looks with notifications.
func TestPooledWaiterLooks(t *testing.T) {
	t.Parallel() // it mostly waits
	server := pgtest.Start(t)
	place := pgtest.URL(server.Pooler(t), "postgres", "postgres", "tasklock")
	s := open(t, place)
	rev, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	waiter := openWith(t, place, pgstore.Options{Poll: time.Hour})
	woken := make(chan error, 1)
	go func() { woken <- waiter.Wait(t.Context(), []driver.Guard{{Key: "lock/a", Rev: rev}}) }()
	looked(t, server, "tasklock")
	_, err = s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	select {
	case err := <-woken:
		must(t, err)
	case <-time.After(2 * time.Minute):
		t.Error("not after two minutes")
	}
}
