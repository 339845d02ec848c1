package pgstore_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/pgtest"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/pgstore"
)

// documented returns the blocks of SQL in the page about this store, as people
// copy them.
func documented(t *testing.T) (blocks []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/backends/postgres.md")
	must(t, err)
	for _, m := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

func block(t *testing.T, word string) string {
	t.Helper()
	for _, b := range documented(t) {
		if strings.Contains(b, word) {
			return b
		}
	}
	t.Fatalf("the page has no SQL about %s", word)
	return ""
}

// Every query in the page answers, and rightly.
func TestDocumentedQueries(t *testing.T) {
	server := pgtest.Start(t)
	server.SQL(t, "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC") // as careful administrators do
	s := open(t, server.URL("postgres", "tasklock"))
	st := store.New(s)
	for _, key := range []string{"a1b2c3", "section:Back/end", "job:daily-digest"} {
		_, err := lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{key}, Owner: "pod-1"})
		must(t, err)
	}
	_, err := s.Commit(t.Context(), put("lock/gone", `{"key":"gone","lease":"nobody/x","owner":"nobody","since":"2024-01-15T10:30:00Z"}`))
	must(t, err)
	_, err = s.Commit(t.Context(), put("lease/old/1", `{"ttlSeconds":0}`))
	must(t, err)
	_, err = s.Commit(t.Context(), put("lock/old", `{"key":"old","lease":"old/1","owner":"old","since":"2024-01-15T10:30:00Z"}`))
	must(t, err)
	for i := range 25 {
		at := fmt.Sprintf("2026-01-%02dT03:00:00Z", i+1)
		_, err := s.Commit(t.Context(), put("fire/daily-digest/"+at,
			`{"job":"daily-digest","fireTime":"`+at+`","runId":"r","state":"done","claimedAt":"`+at+`"}`))
		must(t, err)
	}
	for _, b := range documented(t) {
		server.SQL(t, b)
	}
	active := server.SQL(t, block(t, "active_locks"))
	if lines := strings.Split(active, "\n"); len(lines) != 3 {
		t.Errorf("active locks:\n%s", active)
	}
	if !regexp.MustCompile(`(?m)^task_lock:daily-digest:[0-9]+\|\{"process_id" : "pod-1", "acquired_at" : [0-9.]+, "expires_at" : [0-9.]+, "token" : [0-9]+, "key" : "job:daily-digest"\}$`).MatchString(active) {
		t.Errorf("active locks:\n%s", active)
	}
	// The question of those who had it in a table of settings before.
	const before = `SELECT count(*) FROM tasklock.active_locks WHERE key LIKE 'task_lock:%' AND (value ->> 'expires_at')::float > extract(epoch FROM now())`
	if got := server.SQL(t, before); got != "3" {
		t.Errorf("%s active locks by the old question", got)
	}
	runs := strings.Split(server.SQL(t, block(t, "last_runs")), "\n")
	if len(runs) != 20 || !strings.HasPrefix(runs[0], "task_lock:daily-digest:2026-01-25T03:00:00Z|{") || !strings.Contains(runs[19], "2026-01-06") {
		t.Errorf("%d runs:\n%s", len(runs), strings.Join(runs, "\n"))
	}
	if got := server.SQL(t, "SELECT task_id, runner_id, expires_at - heartbeat_at FROM tasklock.task_locks WHERE task_id = 'a1b2c3'"); got != "a1b2c3|pod-1|01:00:00" {
		t.Errorf("task %s", got)
	}
	if got := server.SQL(t, "SELECT section_id, runner_id, expires_at > now() FROM tasklock.section_locks"); got != "Back/end|pod-1|t" {
		t.Errorf("section %s", got)
	}
	rightsOfRoles(t, server)
}

// rightsOfRoles: the roles of the page can do what they are for, and no more.
func rightsOfRoles(t *testing.T, server *pgtest.Server) {
	worker := pgtest.URL(server.Addr(), "worker", "postgres", "tasklock")
	st := store.New(openWith(t, worker, pgstore.Options{Create: true}))
	g, err := lease.Acquire(t.Context(), st, lease.AcquireRequest{Keys: []string{"by-worker"}, Owner: "w"})
	must(t, err)
	_, err = lease.Release(t.Context(), st, lease.ReleaseRequest{Owner: "w", Lease: g.LeaseID})
	must(t, err)
	if r, err := pgstore.Inspect(t.Context(), worker); err != nil {
		t.Errorf("worker: %+v, %v", r, err)
	}
	if out, err := server.Query("postgres", "SET ROLE worker; DROP TABLE tasklock.record"); err == nil {
		t.Errorf("a worker may drop the table: %s", out)
	}
	looker := pgtest.URL(server.Addr(), "looker", "postgres", "tasklock")
	s := openWith(t, looker, pgstore.Options{})
	_, err = s.Commit(t.Context(), put("lock/x", `{}`))
	refusedTo(t, err, `GRANT USAGE ON SCHEMA "tasklock" TO "looker"; GRANT SELECT, INSERT, UPDATE, DELETE`, `GRANT EXECUTE ON ALL ROUTINES IN SCHEMA "tasklock" TO "looker"`)
	if _, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "lock/"}}}); err != nil {
		t.Error(err)
	}
	if r, err := pgstore.Inspect(t.Context(), looker); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("looker: %+v, %v", r, err)
	}
	server.SQL(t, "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA tasklock FROM worker")
	if r, err := pgstore.Inspect(t.Context(), worker); !errors.Is(err, driver.ErrDenied) {
		t.Errorf("a worker without the function: %+v, %v", r, err)
	}
	server.SQL(t, "CREATE ROLE stranger LOGIN")
	_, err = pgstore.Open(t.Context(), pgtest.URL(server.Addr(), "stranger", "postgres", "tasklock"), nil)
	refusedTo(t, err, "GRANT USAGE ON SCHEMA")
	// No schema, and no right to make it.
	_, err = pgstore.Open(t.Context(), pgtest.URL(server.Addr(), "worker", "postgres", "elsewhere"), &pgstore.Options{Create: true})
	refusedTo(t, err, fmt.Sprintf("an administrator can, once: tasklock --store 'postgres://ADMIN@127.0.0.1:%d/postgres?schema=elsewhere' init", server.Port))
}
