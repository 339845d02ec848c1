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
	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/pgstore"
)

func schemaOf(place string) string { return place[strings.LastIndex(place, "=")+1:] }

// waiting starts a wait and returns when the server knows that somebody listens.
func waiting(t *testing.T, server *pgtest.Server, s *pgstore.Store, rev int64) <-chan error {
	t.Helper()
	woken := make(chan error, 1)
	go func() {
		for {
			err := s.Wait(t.Context(), []driver.Guard{{Key: "lock/a", Rev: rev}})
			if err == nil {
				_, err = s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: "lock/a", Rev: rev}}})
				if err != nil && !errors.Is(err, driver.ErrConflict) && t.Context().Err() == nil {
					continue // a server that restarts: look again
				}
			}
			if err != nil {
				woken <- err
				return
			}
		}
	}()
	return woken
}

func listeners(t *testing.T, server *pgtest.Server) string {
	t.Helper()
	return server.SQL(t, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted")
}

// Only when somebody listens is anything sent, and then the keys.
func TestNotifiesOnlyListeners(t *testing.T) {
	t.Parallel() // it mostly waits
	server := pgtest.Start(t)
	place := server.URL("postgres", "tasklock")
	s := open(t, place)
	var heard []string
	cfg, err := pgconn.ParseConfig(fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", server.Addr()))
	must(t, err)
	cfg.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { heard = append(heard, n.Payload) }
	spy, err := pgconn.ConnectConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { _ = spy.Close(context.Background()) })
	_, err = spy.Exec(t.Context(), "LISTEN tasklock").ReadAll()
	must(t, err)

	rev, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	must(t, spy.Ping(t.Context()))
	if len(heard) > 0 {
		t.Fatalf("nobody waits, and %q was sent", heard)
	}
	woken := waiting(t, server, open(t, place), rev)
	pgtest.Eventually(t, "somebody listens", func() bool { return listeners(t, server) == "1" })
	_, err = s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{{Key: "lock/a", Value: []byte(`{}`)}, {Key: `task/"x"`}}})
	must(t, err)
	if err := <-woken; !errors.Is(err, driver.ErrConflict) {
		t.Fatal(err)
	}
	must(t, spy.Ping(t.Context()))
	if len(heard) != 1 || heard[0] != `["lock/a","task/\"x\""]` {
		t.Fatalf("sent: %q", heard)
	}
}

// The listener's session is ended, the server restarts: the waiter is served,
// and listens again.
func TestListensAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	server := pgtest.Start(t)
	place := server.URL("postgres", "tasklock")
	s := open(t, place)
	rev, err := s.Commit(t.Context(), put("lock/a", `{}`))
	must(t, err)
	waiter := openWith(t, place, pgstore.Options{Poll: time.Minute})
	for _, fault := range []func(){
		func() {
			server.SQL(t, "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE mode = 'ShareLock' AND locktype = 'advisory'")
		},
		func() { must(t, server.Restart("fast")) },
	} {
		woken := waiting(t, server, waiter, rev)
		pgtest.Eventually(t, "it listens", func() bool { return listeners(t, server) == "1" })
		fault()
		pgtest.Eventually(t, "it listens again", func() bool { return listeners(t, server) == "1" })
		select {
		case err := <-woken:
			t.Fatalf("woken without a change: %v", err)
		default:
		}
		pgtest.Eventually(t, "a commit", func() bool {
			var err error
			rev, err = s.Commit(t.Context(), put("lock/a", `{}`))
			return err == nil
		})
		if err := <-woken; !errors.Is(err, driver.ErrConflict) {
			t.Fatal(err)
		}
	}
}

// Nobody listens for longer than somebody waits.
func TestStopsListening(t *testing.T) {
	t.Parallel() // it mostly waits
	server := pgtest.Start(t)
	s := open(t, server.URL("postgres", "tasklock"))
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(200*time.Millisecond, cancel)
	if err := s.Wait(ctx, []driver.Guard{{Key: "lock/a"}}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	pgtest.Eventually(t, "nobody listens", func() bool { return listeners(t, server) == "0" })
}

// A record is as old as its writing, not as the asking for it: a commit that had
// to wait for its turn is young when it has it.
func TestAgeCountsFromTheWriting(t *testing.T) {
	server := pgtest.Shared(t)
	place := server.Place()
	s := open(t, place)
	rev, err := s.Commit(t.Context(), put("lease/a", `{}`))
	must(t, err)
	done := make(chan string, 1)
	held := 2 * time.Second
	go func() {
		out, err := server.Query("postgres", fmt.Sprintf("BEGIN; SELECT pg_advisory_xact_lock(%d); SELECT pg_sleep(%v); COMMIT", pgstore.Turn(schemaOf(place)), held.Seconds()))
		done <- fmt.Sprint(out, err)
	}()
	pgtest.Eventually(t, "the turn is taken", func() bool {
		return len(done) > 0 || // seen too late
			server.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(2)%' AND wait_event = 'PgSleep'") == "1"
	})
	began := time.Now()
	_, err = s.Commit(t.Context(), driver.Batch{Guards: []driver.Guard{{Key: "lease/a", Rev: rev}}, Writes: put("lease/b", `{}`).Writes})
	must(t, err)
	waited := time.Since(began)
	<-done
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lease/b"}})
	must(t, err)
	age := snap.Now.Sub(snap.Records[0].Time)
	t.Logf("waited %v, age %v", waited, age)
	if waited < held/2 {
		t.Skip("the commit did not have to wait: this machine is too busy to tell")
	}
	if age > time.Since(began)-waited+held/4 && age > held/2 {
		t.Fatalf("a record written %v ago is %v old", time.Since(began)-waited, age)
	}
}

// Behind a pooler that gives every transaction another session, everything
// works; waiters look for themselves, and Inspect says so.
func TestPooler(t *testing.T) {
	long.NotShort(t) // the suite once more takes long under the race detector
	server := pgtest.Start(t)
	addr := server.Pooler(t)
	n := 0
	drivertest.Run(t, drivertest.Harness{
		Place: func(testing.TB) string { n++; return pgtest.URL(addr, "postgres", "postgres", fmt.Sprint("p", n)) },
		Open: func(t testing.TB, place string) driver.Store {
			s, err := pgstore.Open(t.Context(), place, &pgstore.Options{Create: true, Poll: 50 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	})
	r, err := pgstore.Inspect(t.Context(), pgtest.URL(addr, "postgres", "postgres", "p1"))
	if err != nil || !pooled(r) {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err = pgstore.Inspect(t.Context(), server.URL("postgres", "p1")); err != nil || pooled(r) {
		t.Fatalf("%+v, %v", r, err)
	}
	if got := listeners(t, server); got != "0" {
		t.Fatalf("%s listen through a pooler", got)
	}
}

func pooled(r driver.Report) bool { return strings.Contains(fmt.Sprint(r.Warnings), "pooler") }
