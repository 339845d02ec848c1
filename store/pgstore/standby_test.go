package pgstore_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/pgstore/pgtest"
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

// A synchronous standby is away: a commit that waits for it cannot be seen, and
// whatever ends the wait, nobody is told that it is done. When the standby takes
// over, all is there that anybody was told.
func TestSynchronousStandby(t *testing.T) {
	t.Parallel() // it mostly waits
	primary, standby := pair(t)
	url := primary.URL("postgres", "tasklock")
	must(t, increment(t.Context(), store.New(open(t, url))))
	must(t, standby.Stop("fast"))
	seen := func() int {
		n, err := strconv.Atoi(primary.SQL(t, "SELECT value ->> 'N' FROM tasklock.record WHERE key = 'counter/a'"))
		must(t, err)
		return n
	}
	for _, c := range []struct {
		what string
		end  func() // of the server's wait
		seen int    // how much more the primary shows then
	}{
		{"our time is over", func() {}, 0},
		{"an administrator cancels", func() {
			primary.SQL(t, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
		}, 1},
		{"the server crashes", func() { must(t, primary.Restart("immediate")) }, 1},
	} {
		before, st := seen(), store.New(open(t, url))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- increment(ctx, st) }()
		pgtest.Eventually(t, "a commit that waits", func() bool { return stuck(t, primary) })
		c.end()
		pgtest.Eventually(t, "the same, or one that confirms it", func() bool { return stuck(t, primary) || len(done) > 0 })
		cancel()
		if err := <-done; !errors.Is(err, store.ErrUnknown) {
			t.Errorf("%s: error %v", c.what, err)
		}
		if n := seen(); n != before+c.seen {
			t.Errorf("%s: the primary shows %d after %d", c.what, n, before)
		}
		must(t, primary.Restart("immediate")) // the next finds nobody waiting
	}
	must(t, primary.Stop("immediate"))
	must(t, standby.Up())
	must(t, standby.Promote())
	if n := count(t, store.New(open(t, standby.URL("postgres", "tasklock")))); n != 1 {
		t.Errorf("1 was acknowledged, and %d count", n)
	}
}
