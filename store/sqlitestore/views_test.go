package sqlitestore_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// People ask the sqlite3 shell who holds what, with the queries they know.
func TestViews(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s", "db")
	s := open(t, path)
	write := func(key, value string) {
		t.Helper()
		if _, err := s.Commit(t.Context(), put(key, value)); err != nil {
			t.Fatal(err)
		}
	}
	write("lease/ci/1", `{"ttlSeconds":3600}`)
	write("lease/ci/2", `{"ttlSeconds":0.5}`)
	lock := func(key, lease string) {
		write("lock/"+key, `{"key":"`+key+`","lease":"`+lease+`","owner":"ci","since":"2024-01-15T10:30:00.25Z"}`)
	}
	lock("a1b2", "ci/1")
	lock("old", "ci/2")
	lock("gone", "ci/3")
	lock("section:Back/end", "ci/1")
	lock("job:daily", "ci/1")
	lock("path:src/**", "ci/1")

	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{"lease/ci/1"}})
	must(t, err)
	beat := snap.Records[0].Time
	iso := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }
	want := "a1b2|ci|2024-01-15T10:30:00Z|" + iso(beat.Add(time.Hour)) + "|" + iso(beat)
	if got := shell(t, path, `SELECT * FROM task_locks WHERE task_id = 'a1b2'`); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	want = "Back/end|ci|2024-01-15T10:30:00Z|" + iso(beat.Add(time.Hour))
	if got := shell(t, path, `SELECT * FROM section_locks`); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := shell(t, path, `SELECT group_concat(task_id) FROM task_locks ORDER BY 1`); got != "a1b2,old" {
		t.Errorf("tasks %s", got)
	}
	const columns = `SELECT group_concat(name) FROM pragma_table_info('task_locks')`
	if got := shell(t, path, columns); got != "task_id,runner_id,acquired_at,expires_at,heartbeat_at" {
		t.Errorf("columns %s", got)
	}
	if got := shell(t, path, `SELECT value FROM record WHERE key = 'lease/ci/1'`); got != `{"ttlSeconds":3600}` {
		t.Errorf("value %s", got)
	}
}
