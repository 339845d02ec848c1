package legacy

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tasklock/tasklock/store/driver"
)

const steroidsSchema = `
CREATE TABLE sections (id TEXT PRIMARY KEY, name TEXT NOT NULL, position INTEGER NOT NULL, priority INTEGER DEFAULT 50, skipped INTEGER DEFAULT 0);
CREATE TABLE section_dependencies (id TEXT PRIMARY KEY, section_id TEXT, depends_on_section_id TEXT);
CREATE TABLE task_dependencies (id TEXT PRIMARY KEY, task_id TEXT, depends_on_task_id TEXT);
CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, description TEXT, status TEXT, section_id TEXT);
CREATE TABLE task_locks (task_id TEXT PRIMARY KEY REFERENCES tasks(id), runner_id TEXT NOT NULL, acquired_at TEXT NOT NULL,
  expires_at TEXT NOT NULL, heartbeat_at TEXT NOT NULL DEFAULT (datetime('now')));
CREATE TABLE section_locks (section_id TEXT PRIMARY KEY REFERENCES sections(id), runner_id TEXT NOT NULL, acquired_at TEXT NOT NULL, expires_at TEXT NOT NULL);
`

// database makes one of steroids, with a log beside it that was not folded in.
func database(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), ".steroids", "steroids.db")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate|sqlite.OpenWAL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSteroids(t *testing.T) {
	path := database(t, steroidsSchema+`
INSERT INTO sections VALUES ('s1', 'Backend', 1, 50, 0), ('s2', 'UI/Web', 2, 10, 1), ('s3', '', 3, 50, 0), ('s4', 'Backend', 4, 5000, 0), ('s5', 'Before', 0, 50, 0);
INSERT INTO task_dependencies VALUES ('e1', 'c1', 'a1b2'), ('e2', 'c1', NULL);
INSERT INTO section_dependencies VALUES ('d1', 's2', 's1'), ('d2', 's2', 'none');
INSERT INTO tasks VALUES ('a1b2', 'Fix bug', 'all of it', 'in_progress', 's1'), ('a1b3', 'Done', NULL, 'completed', NULL), ('a1b4', 'Odd', '', 'perhaps', NULL),
  ('a1b5', 'Lost', '', 'pending', 'none'), ('../x', 'Evil', '', 'pending', NULL), ('', 'Nameless', '', 'pending', NULL), ('a1b6', x'00ff', '', NULL, 's2'),
  ('c1', '1', '', 'merge_pending', NULL), ('c2', '2', '', 'partial', NULL), ('c3', '3', '', 'blocked_error', NULL), ('c4', '4', '', 'blocked_conflict', NULL), ('c5', '5', '', 'disputed', NULL);
INSERT INTO task_locks VALUES ('a1b2', 'f47ac10b', '2026-03-01T11:30:00', '2026-03-01T12:30:00', ''), ('a1b3', 'f47ac10b', '2026-03-01 10:00:00', '2026-03-01 11:00:00', ''),
  ('a1b5', 'f47ac10b', 'never', '2026-03-01T12:30:00Z', ''), ('a1b6', '', '2026-03-01T11:30:00Z', '2026-03-01T12:30:00Z', '');
INSERT INTO section_locks VALUES ('s1', 'f47ac10b', '2026-03-01T11:30:00.123Z', '2026-03-01T13:30:00.000Z'), ('none', 'x', '2026-03-01T11:30:00Z', '2026-03-01T12:30:00Z');`)
	before := tree(t, filepath.Dir(path))
	s, err := Steroids(t.Context(), filepath.Dir(filepath.Dir(path)), now)
	want := []string{
		"section Backend 501 false []", "section UI/Web 100 true [Backend]", "section s3 502 false []", "section Backend s4 503 false []", "section Before 500 false []",
		`task a1b2 "Fix bug" in_progress Backend []`, `task a1b3 "Done" completed  []`, `task a1b4 "Odd" blocked  []`, `task a1b5 "Lost" pending  []`,
		`task a1b6 "00ff" pending UI/Web []`,
		`task c1 "1" review  [a1b2]`, `task c2 "2" blocked  []`, `task c3 "3" blocked  []`, `task c4 "4" blocked  []`, `task c5 "5" blocked  []`,
		"lock section:Backend f47ac10b 1h30m0s since 29m59.877s ", "lock section:none x 30m0s since 30m0s ",
		"lock a1b2 f47ac10b 30m0s since 30m0s ", "lock a1b5 f47ac10b 30m0s since ever ", "lock a1b6 unknown:task_locks, row 4 30m0s since 30m0s ", "expired 1",
		"problem section_dependencies, row 2", "problem tasks, row 5", "problem tasks, row 6",
		"warning sections, row 3", "warning sections, row 4", "warning sections, row 4", "warning task_dependencies, row 2", "warning tasks, row 3", "warning tasks, row 4",
		"warning section_locks, row 2", "warning task_locks, row 3", "warning task_locks, row 4",
	}
	if diff := cmp.Diff(want, summary(s)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if diff := cmp.Diff(before, tree(t, filepath.Dir(path))); diff != "" {
		t.Errorf("the source was changed: %s", diff)
	}
}

// Sections whose long names begin alike stay two, and the result names each new name.
func TestSteroidsLongSections(t *testing.T) {
	path := database(t, steroidsSchema+`
INSERT INTO sections VALUES ('s1', printf('%.600c', 'x') || 1, 1, 50, 0), ('s2', printf('%.600c', 'x') || 2, 2, 50, 0), ('s3', '-dash', 3, 50, 0);
INSERT INTO section_locks VALUES ('s1', 'a', '2026-03-01T11:30:00Z', '2026-03-01T13:30:00Z'), ('s2', 'b', '2026-03-01T11:30:00Z', '2026-03-01T13:30:00Z');`)
	s, err := Steroids(t.Context(), path, now)
	if err != nil || len(s.Locks) != 2 || len(s.Warnings) != 3 {
		t.Fatalf("%v, %v", summary(s), err)
	}
	for i, l := range s.Locks {
		if l.Key != "section:"+s.Sections[i].Name {
			t.Errorf("the lock on %s is on %s", s.Sections[i].Name, l.Key)
		}
	}
}

// A time without a zone is local in one version and UTC in others. A lock is over
// when it is over in both, and not if it would end before it began.
func TestSteroidsWithoutAZone(t *testing.T) {
	path := database(t, steroidsSchema+`
INSERT INTO task_locks VALUES ('a', 'r', '2026-03-01 11:50:00', '2026-03-01T04:30:00', ''), ('b', 'r', '2026-03-01 00:00:00', '2026-03-01T02:30:00', ''),
  ('c', 'r', '2026-03-01 11:50:00', '2026-03-01T02:30:00', '');`)
	doubted := []string{"warning task_locks, row 3"}
	for zone, want := range map[int]string{-8: "lock a r 30m0s since 10m0s ", 0: "lock a r no end since 10m0s "} {
		want := []string{want, "lock c r no end since 10m0s ", "expired 1"}
		if zone == 0 {
			want = append(want, "warning task_locks, row 1")
		}
		s, err := Steroids(t.Context(), path, now.In(time.FixedZone("", zone*3600)))
		if diff := cmp.Diff(append(want, doubted...), summary(s)); err != nil || diff != "" {
			t.Errorf("%d: %v\n%s", zone, err, diff)
		}
	}
}

// A writer that was killed in the middle of a transaction leaves a database
// with half of it and a journal that takes it back. So does one that still
// writes, for a reader that looks at the files.
func TestSteroidsWithAHotJournal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "steroids.db")
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	run := func(script string) {
		t.Helper()
		if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA journal_mode = DELETE", nil); err != nil {
		t.Fatal(err)
	}
	run(steroidsSchema + `
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
INSERT INTO tasks SELECT 'task-' || i, 'Title ' || i, hex(randomblob(100)), 'pending', NULL FROM n;`)
	want := titles(t, path)
	committed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, pragma := range []string{"PRAGMA cache_size = 5", "PRAGMA cache_spill = 1", "BEGIN IMMEDIATE"} { // pages go to the file before the commit
		if err := sqlitex.ExecuteTransient(conn, pragma, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, change := range []string{
		"DELETE FROM tasks WHERE rowid % 10 = 0",
		"UPDATE tasks SET title = 'half', description = hex(randomblob(300)), status = 'completed'",
	} {
		if err := sqlitex.ExecuteTransient(conn, change, nil); err != nil {
			t.Fatal(err)
		}
	}
	left := filepath.Join(t.TempDir(), "left.db") // as a machine finds it after a crash
	for _, suffix := range []string{"", "-journal"} {
		text, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if suffix == "" && bytes.Equal(text, committed) {
			t.Fatal("nothing of the transaction is in the file: the test shows nothing")
		}
		if err := os.WriteFile(left+suffix, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(left, link); err != nil {
		t.Logf("no symlinks here: %v", err)
		link = left
	}
	before := tree(t, filepath.Dir(left))
	for name, from := range map[string]string{"left by a crash": left, "linked": link} {
		if got := titles(t, from); !maps.Equal(got, want) {
			t.Errorf("%s: %d tasks, want %d, or others", name, len(got), len(want))
		}
	}
	if diff := cmp.Diff(before, tree(t, filepath.Dir(left))); diff != "" {
		t.Errorf("the source was changed: %s", diff)
	}
}

// titles are the tasks that migrate would bring, with all that they say.
func titles(t *testing.T, path string) map[string]string {
	t.Helper()
	s, err := Steroids(t.Context(), path, now)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, k := range s.Tasks {
		out[k.ID] = k.Title + string(k.Status) + k.Description
	}
	return out
}

// tree is every file below a folder with its content and time.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		out[path] = fi.ModTime().String() + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSteroidsThatIsNone(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	empty := filepath.Join(dir, "empty.db")
	cut := filepath.Join(dir, "cut.db")
	path := database(t, steroidsSchema)
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(sqlitex.ExecuteTransient(conn, "PRAGMA wal_checkpoint(TRUNCATE)", nil), conn.Close()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{text: []byte("no database at all, it only looks like a file"), empty: nil, cut: whole[:len(whole)/2+100]} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]error{
		text: driver.ErrDamaged, empty: driver.ErrDamaged, cut: driver.ErrDamaged, dir: driver.ErrMissing, filepath.Join(dir, "none"): driver.ErrMissing,
		database(t, "CREATE TABLE other (x)"): driver.ErrDamaged,
	} {
		if _, err := Steroids(t.Context(), path, now); !errors.Is(err, want) {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
}
