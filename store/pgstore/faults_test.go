package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/internal/proxy"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

type counter struct{ N int }

// increment counts one up, and leaves a receipt so that a lost answer is looked
// up.
func increment(ctx context.Context, st *store.Store) error {
	_, err := st.Update(ctx, driver.Query{Keys: []string{"counter/a"}}, func(tx *store.Tx) error {
		c, err := store.Get[counter](tx, "counter/a")
		if err != nil {
			return err
		}
		receipt := fmt.Sprintf("event/%d", receipts.Add(1))
		if err := tx.Put("counter/a", counter{c.Value.N + 1}); err != nil {
			return err
		}
		tx.Receipt(receipt)
		return tx.Put(receipt, counter{})
	})
	return err
}

var receipts atomic.Int64

func count(t testing.TB, st *store.Store) (n int) {
	t.Helper()
	err := st.View(t.Context(), driver.Query{Keys: []string{"counter/a"}}, func(tx *store.Tx) error {
		c, err := store.Get[counter](tx, "counter/a")
		n = c.Value.N
		return err
	})
	must(t, err)
	return n
}

// The server restarts, crashes, and ends every session under four workers. Each
// of them goes on, and what was acknowledged counts once.
func TestWorkGoesOn(t *testing.T) {
	t.Parallel() // it mostly waits
	server := pgtest.Start(t)
	url := server.Place()
	st := store.New(open(t, url))
	ctx, stop := context.WithCancel(t.Context())
	var acked, unknown atomic.Int64
	var work sync.WaitGroup
	for range 4 {
		own := store.New(open(t, url))
		work.Go(func() {
			for ctx.Err() == nil {
				switch err := increment(t.Context(), own); {
				case err == nil:
					acked.Add(1)
				case errors.Is(err, store.ErrUnknown):
					unknown.Add(1)
				default:
					t.Errorf("a worker gave up: %v", err)
					return
				}
			}
		})
	}
	progress := func() {
		t.Helper()
		before := acked.Load()
		pgtest.Eventually(t, "work goes on", func() bool { return acked.Load() > before+20 || t.Failed() })
	}
	for range 2 {
		progress()
		must(t, server.Restart("fast"))
		progress()
		must(t, server.Restart("immediate"))
		progress()
		server.SQL(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
	}
	progress()
	stop()
	work.Wait()
	n, least := count(t, st), int(acked.Load())
	if n < least || n > least+int(unknown.Load()) {
		t.Fatalf("%d were acknowledged and %d unknown, and %d count", least, unknown.Load(), n)
	}
	t.Logf("%d acknowledged, %d unknown", least, unknown.Load())
}

func through(t testing.TB, s *pgtest.Server) (*proxy.Proxy, string) {
	t.Helper()
	p, err := proxy.New(s.Addr())
	must(t, err)
	t.Cleanup(p.Close)
	place := s.Place()
	return p, pgtest.URL(p.Addr(), "postgres", "postgres", place[bytes.LastIndexByte([]byte(place), '=')+1:])
}

func isCommit(b []byte) bool { return commitCall.Match(b) }

var commitCall = regexp.MustCompile(`SELECT \S+\.commit\('|\x00tasklock_save\x00`)

// The connection is cut after the server has committed and before it can say
// so: exactly one effect, and the caller gets the true answer.
func TestCutAtCommit(t *testing.T) {
	p, url := through(t, pgtest.Shared(t))
	st := store.New(open(t, url))
	must(t, increment(t.Context(), st))
	for i := range 30 {
		cut := p.CutAnswer(isCommit, nil)
		must(t, increment(t.Context(), st))
		<-cut
		if n := count(t, st); n != i+2 {
			t.Fatalf("round %d: %d count", i, n)
		}
	}
}

// To the driver itself such a commit is neither done nor refused.
func TestCutIsUnknown(t *testing.T) {
	p, url := through(t, pgtest.Shared(t))
	s := open(t, url)
	cut := p.CutAnswer(isCommit, nil)
	_, err := s.Commit(t.Context(), put("lock/a", `{}`))
	<-cut
	if err == nil || driver.Refusal(err) || errors.Is(err, driver.ErrConflict) {
		t.Fatalf("error %v", err)
	}
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
	if err != nil || len(snap.Records) != 1 {
		t.Fatalf("%d records, %v", len(snap.Records), err)
	}
}

// A network that swallows everything is an error after a while, not a free lock
// and not a hang; when it is back so are we. In one direction only it hides a
// commit that was applied.
func TestBlackHole(t *testing.T) {
	t.Parallel() // it mostly waits
	p, url := through(t, pgtest.Shared(t))
	open(t, url) // which may take longer than a call
	s := openWith(t, url, pgstore.Options{Timeout: 400 * time.Millisecond})
	st := store.New(s)
	must(t, increment(t.Context(), st))
	for i, direction := range []proxy.Direction{proxy.Both, proxy.ToClient, proxy.ToServer} {
		p.BlackHole(direction)
		err := st.View(t.Context(), driver.Query{Keys: []string{"counter/a"}}, func(*store.Tx) error { return nil })
		if !errors.Is(err, store.ErrUnreachable) {
			t.Fatalf("read in a black hole: %v", err)
		}
		if _, err := s.Commit(t.Context(), put("lock/a", `{}`)); err == nil || driver.Refusal(err) {
			t.Fatalf("commit in a black hole: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := s.Read(ctx, driver.Query{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a caller with little time: %v", err)
		}
		cancel()
		p.Heal()
		p.Cut()
		pgtest.Eventually(t, "an answer", func() bool { _, err := s.Read(t.Context(), driver.Query{}); return err == nil })
		before := count(t, st)
		must(t, increment(t.Context(), st))
		if n := count(t, st); n != before+1 {
			t.Fatalf("round %d: from %d to %d", i, before, n)
		}
	}
}

// Answers that come too late are looked up.
func TestSlowAnswers(t *testing.T) {
	t.Parallel() // it mostly waits
	p, url := through(t, pgtest.Shared(t))
	open(t, url) // which may take longer than a call
	s := openWith(t, url, pgstore.Options{Timeout: 400 * time.Millisecond})
	st := store.New(s)
	must(t, increment(t.Context(), st))
	p.BlackHole(proxy.ToClient)
	done := make(chan error)
	go func() { done <- increment(t.Context(), st) }()
	time.AfterFunc(700*time.Millisecond, p.Heal)
	err := <-done
	pgtest.Eventually(t, "an answer", func() bool { _, err := s.Read(t.Context(), driver.Query{}); return err == nil })
	n := count(t, st)
	if err == nil && n != 2 || err != nil && !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrUnreachable) || n > 2 {
		t.Fatalf("%d count, error %v", n, err)
	}
}

func refused(t testing.TB, what string, err, want error, words ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: error %v, want %v", what, err, want)
	}
	for _, w := range words {
		if !bytes.Contains([]byte(err.Error()), []byte(w)) {
			t.Fatalf("%s: %q does not say %q", what, err, w)
		}
	}
}

// A standby can be read and says why it cannot be written. When it takes over,
// revisions go on far above those that it may not have got, and elsewhere than those
// of another standby that takes over as well.
func TestStandby(t *testing.T) {
	t.Parallel() // it mostly waits
	primary := pgtest.Start(t)
	url := primary.URL("postgres", "tasklock")
	before, err := open(t, url).Commit(t.Context(), put("lock/a", `{"n":1}`))
	must(t, err)
	standby, err := primary.Standby()
	must(t, err)
	t.Cleanup(standby.Close)
	sibling, err := primary.Standby()
	must(t, err)
	t.Cleanup(sibling.Close)
	s := openWith(t, standby.URL("postgres", "tasklock"), pgstore.Options{})
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lock/a"}})
	if err != nil || len(snap.Records) != 1 {
		t.Fatalf("%d records, %v", len(snap.Records), err)
	}
	_, err = s.Commit(t.Context(), put("lock/a", `{}`))
	refused(t, "a commit on a standby", err, driver.ErrDenied, "can only be read", "target_session_attrs=read-write")
	_, err = pgstore.Inspect(t.Context(), standby.URL("postgres", "tasklock"))
	refused(t, "doctor of a standby", err, driver.ErrDenied, "can only be read")
	both := standby.With(primary, standby.URL("postgres", "tasklock"))
	_, err = openWith(t, both, pgstore.Options{}).Commit(t.Context(), put("lock/b", `{}`)) // finds the one that is none
	must(t, err)
	_, err = pgstore.Open(t.Context(), standby.URL("postgres", "other"), &pgstore.Options{Create: true})
	refused(t, "a new store on a standby", err, driver.ErrDenied, "can only be read")

	must(t, primary.Stop("immediate"))
	must(t, standby.Promote())
	rev, err := s.Commit(t.Context(), put("lock/a", `{"n":2}`))
	must(t, err)
	if rev < before+1<<32 {
		t.Fatalf("revision %d on the new timeline, %d before: it may be given out twice", rev, before)
	}
	next, err := s.Commit(t.Context(), put("lock/a", `{"n":3}`))
	if err != nil || next != rev+1 {
		t.Fatalf("then revision %d after %d, %v", next, rev, err)
	}

	must(t, sibling.Promote()) // which goes on from the same state, on the same number of timeline
	sister := openWith(t, sibling.URL("postgres", "tasklock"), pgstore.Options{})
	theirs, err := sister.Commit(t.Context(), put("lock/a", `{"n":2}`))
	must(t, err)
	if apart := max(rev, theirs) - min(rev, theirs); theirs < before+1<<32 || max(rev, theirs) > driver.MaxRevision || apart < 2000 {
		t.Fatalf("two standbys of one primary go on at %d and %d, from %d", rev, theirs, before)
	}
}

// A role whose transactions are read-only gets that answer.
func TestReadOnlyRole(t *testing.T) {
	server := pgtest.Shared(t)
	place := server.Place()
	open(t, place)
	schema := place[bytes.LastIndexByte([]byte(place), '=')+1:]
	server.SQL(t, "CREATE ROLE reader LOGIN; ALTER ROLE reader SET default_transaction_read_only = on; GRANT USAGE ON SCHEMA "+schema+
		" TO reader; GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO reader")
	s := openWith(t, pgtest.URL(server.Addr(), "reader", "postgres", schema), pgstore.Options{})
	_, err := s.Commit(t.Context(), put("lock/a", `{}`))
	refused(t, "a read-only role", err, driver.ErrDenied, "default_transaction_read_only")
	_, err = s.Read(t.Context(), driver.Query{})
	must(t, err)
}

// A server that has no connection left is waited for; if none comes free, that
// is said once.
func TestCrowded(t *testing.T) {
	server := pgtest.Shared(t)
	place := server.Place()
	open(t, place)
	schema := place[bytes.LastIndexByte([]byte(place), '=')+1:]
	server.SQL(t, "CREATE ROLE crowd LOGIN CONNECTION LIMIT 1; GRANT USAGE ON SCHEMA "+schema+" TO crowd; GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO crowd")
	crowd := pgtest.URL(server.Addr(), "crowd", "postgres", schema)
	only, err := pgstore.Open(t.Context(), crowd, nil)
	must(t, err)
	_, err = pgstore.Open(t.Context(), crowd, nil)
	if err == nil || strings.Count(err.Error(), "too many connections") != 1 || strings.ContainsAny(err.Error(), "\n\t") {
		t.Errorf("%v", err)
	}
	var next *pgstore.Store
	opened := make(chan error, 1)
	go func() {
		var err error
		next, err = pgstore.Open(t.Context(), crowd, nil)
		opened <- err
	}()
	time.Sleep(50 * time.Millisecond) // let it find the door closed; it is served in any case
	must(t, only.Close())
	must(t, <-opened)
	must(t, next.Close())
}

// Whoever turned synchronous_commit off does not lose a lock by it, nor does a
// stricter isolation level stand in the way.
func TestOddSettings(t *testing.T) {
	server := pgtest.Shared(t)
	place := server.Place()
	server.SQL(t, `CREATE ROLE odd LOGIN SUPERUSER; ALTER ROLE odd SET synchronous_commit = off;
		ALTER ROLE odd SET default_transaction_isolation = 'serializable'; ALTER ROLE odd SET search_path = ''; ALTER ROLE odd SET timezone = 'Asia/Kathmandu';
		ALTER ROLE odd SET standard_conforming_strings = off; ALTER ROLE odd SET datestyle = 'German'; ALTER ROLE odd SET client_encoding = 'LATIN1'`)
	schema := place[bytes.LastIndexByte([]byte(place), '=')+1:]
	a, b := open(t, pgtest.URL(server.Addr(), "odd", "postgres", schema)), open(t, place)
	var work sync.WaitGroup
	for _, s := range []driver.Store{a, b} {
		work.Go(func() {
			for range 50 {
				if err := increment(t.Context(), store.New(s)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if n := count(t, store.New(b)); n != 100 {
		t.Fatalf("%d count", n)
	}
	_, err := a.Commit(t.Context(), put(`lock/é'\"`, `{"s":"it's \\ \"é\""}`))
	must(t, err)
	snap, err := b.Read(t.Context(), driver.Query{Keys: []string{`lock/é'\"`}})
	if err != nil || len(snap.Records) != 1 || string(snap.Records[0].Value) != `{"s":"it's \\ \"é\""}` {
		t.Fatalf("%v, %v", snap.Records, err)
	}
}
