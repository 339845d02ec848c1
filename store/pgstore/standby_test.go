package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store"
)

// pair is a primary whose commits wait for its standby.
func pair(t *testing.T) (primary, standby *pgtest.Server) {
	t.Helper()
	primary = pgtest.Start(t, pgtest.Synchronous)
	standby, err := primary.Standby()
	must(t, err)
	t.Cleanup(standby.Close)
	return primary, standby
}

// stuck reports whether a commit waits for a standby.
func stuck(t *testing.T, s *pgtest.Server) bool {
	t.Helper()
	return s.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != "0"
}

// grab takes a lock without waiting. It is a named request: nothing takes back one
// whose outcome is unknown.
func grab(ctx context.Context, st *store.Store, key, owner string) (int64, error) {
	g, err := lease.Acquire(ctx, st, lease.AcquireRequest{Keys: []string{key}, Owner: owner, ID: lease.NewID(), TTL: time.Hour})
	return g.Token, err
}

// A synchronous standby is away: others see a commit that waits for it, and
// whatever ends the wait, nobody hears that they have the lock. When the standby
// takes over, every reported lock is there, and the rest is free.
func TestSynchronousStandby(t *testing.T) {
	t.Parallel() // it mostly waits
	primary, standby := pair(t)
	url := primary.URL("postgres", "tasklock")
	kept, err := grab(t.Context(), store.New(open(t, url)), "kept", "alice")
	must(t, err)
	must(t, standby.Stop("fast"))
	cases := []struct {
		key  string
		with string // settings of the session
		end  func() // of the server's wait
	}{
		{"our-time-is-over", "&synchronous_commit=local", func() {}},
		{"administrator-cancels", "&client_min_messages=error", func() {
			primary.SQL(t, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		}},
		{"server-crashes", "", func() { must(t, primary.Restart("immediate")) }},
	}
	for _, c := range cases {
		st := store.New(open(t, url+c.with))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := grab(ctx, st, c.key, "alice")
			done <- err
		}()
		pgtest.Eventually(t, "a commit that waits", func() bool { return stuck(t, primary) })
		c.end()
		pgtest.Eventually(t, "the same, or one that confirms it", func() bool { return stuck(t, primary) || len(done) > 0 })
		cancel()
		if err := <-done; !errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: error %v", c.key, err)
		}
		if n := primary.SQL(t, "SELECT count(*) FROM tasklock.record WHERE key = 'lock/"+c.key+"'"); n != "1" {
			t.Errorf("%s: the primary shows %s locks", c.key, n)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		if out, err := lease.Check(ctx, store.New(open(t, url)), lease.CheckRequest{Key: c.key, HeldBy: "alice"}); err == nil {
			t.Errorf("%s: alice may rely on %+v", c.key, out.Lock)
		}
		cancel()
		must(t, primary.Restart("immediate")) // the next finds nobody waiting
	}
	must(t, primary.Stop("immediate"))
	must(t, standby.Up())
	must(t, standby.Promote())
	standby.SQL(t, "ALTER SYSTEM SET synchronous_standby_names = ''")
	standby.SQL(t, "SELECT pg_reload_conf()")
	st := store.New(open(t, standby.URL("postgres", "tasklock")))
	for _, c := range cases {
		if token, err := grab(t.Context(), st, c.key, "bob"); err != nil || token <= kept {
			t.Errorf("%s: bob has token %d, %v", c.key, token, err)
		}
	}
	var held *lease.HeldError
	if _, err := grab(t.Context(), st, "kept", "bob"); !errors.As(err, &held) {
		t.Errorf("bob has what alice holds: %v", err)
	}
}
