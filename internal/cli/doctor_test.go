package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tasklock/tasklock/internal/cli/session"
	"github.com/tasklock/tasklock/store/driver"
	_ "github.com/tasklock/tasklock/store/sqlitestore"
)

// desk is a repository in which commands are run, by a user with an empty home.
type desk struct {
	t   *testing.T
	dir string
	env map[string]string
	now func() time.Time
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repository(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "home"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &desk{t: t, dir: dir, now: time.Now, env: map[string]string{"HOME": filepath.Join(dir, "home"), "TASKLOCK_OWNER": "me"}}
}

// repository makes a folder one as far as tasklock looks.
func repository(t *testing.T, dir string) {
	t.Helper()
	for _, sub := range []string{".git/objects", ".git/refs"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(sub)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "HEAD"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (d *desk) path(name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }

func (d *desk) put(path, text string) {
	d.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		d.t.Fatal(err)
	}
}

// run runs a command and returns its exit code and all it printed.
func (d *desk) run(args ...string) (code int, out string) {
	d.t.Helper()
	var b bytes.Buffer
	var open []driver.Store
	code = Main(args, session.Process{
		Stdin: strings.NewReader(""), Stdout: &b, Stderr: &b, Dir: d.dir, Now: d.now,
		Env: func(k string) string { return d.env[k] },
	}, session.Program{
		Open: func(ctx context.Context, url string, o *driver.OpenOptions) (driver.Store, error) {
			s, err := driver.Open(ctx, url, o)
			if err == nil {
				open = append(open, s)
			}
			return s, err
		},
	})
	for _, s := range open {
		_ = s.Close()
	}
	return code, b.String()
}

// want runs a command that must exit with code and print the text.
func (d *desk) want(code int, text string, args ...string) {
	d.t.Helper()
	got, out := d.run(args...)
	if got != code || !strings.Contains(out, text) {
		d.t.Errorf("tasklock %s: exit %d, want %d with %q:\n%s", strings.Join(args, " "), got, code, text, out)
	}
	if strings.Contains(out, "bug in tasklock") {
		d.t.Errorf("tasklock %s panics:\n%s", strings.Join(args, " "), out)
	}
}

func (d *desk) sql(text string) {
	d.t.Helper()
	c, err := sqlite.OpenConn(d.path(".tasklock/tasklock.db"), sqlite.OpenReadWrite)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := sqlitex.ExecuteScript(c, text, nil); err != nil {
		d.t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		d.t.Fatal(err)
	}
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	root := os.Getuid() == 0
	for _, c := range []struct {
		name  string
		root  bool // only root can do it
		spoil func(d *desk, db string) error
		code  int
		text  string
	}{
		{"nothing", false, func(*desk, string) error { return nil }, 0, "ok   store"},
		{"truncated", false, func(_ *desk, db string) error { return os.Truncate(db, 3000) }, 9, "fail integrity"},
		{"empty", false, func(_ *desk, db string) error { return os.Truncate(db, 0) }, 9, "is empty"},
		{"garbage", false, func(_ *desk, db string) error { return os.WriteFile(db, bytes.Repeat([]byte("x"), 8192), 0o600) }, 9, "fail integrity"},
		{"a folder", false, func(_ *desk, db string) error { _ = os.Remove(db); return os.Mkdir(db, 0o700) }, 9, "not a regular file"},
		{"foreign", false, func(d *desk, _ string) error { d.sql("PRAGMA application_id=5"); return nil }, 9, "not a tasklock database"},
		{"newer", false, func(d *desk, _ string) error { d.sql("PRAGMA user_version=99"); return nil }, 3, "format 99"},
		{"newer records", false, func(d *desk, _ string) error {
			d.sql(`UPDATE record SET value='{"format":7,"id":"x"}' WHERE key='meta/store'`)
			return nil
		}, 3, "has format 7, this tasklock reads up to 3; upgrade it"},
		{"moved", false, func(d *desk, _ string) error {
			d.sql(`UPDATE record SET value='{"format":1,"id":"x","movedTo":"there"}' WHERE key='meta/store'`)
			return nil
		}, 3, "moved to there"},
		{"no table", false, func(d *desk, _ string) error { d.sql("DROP TABLE record"); return nil }, 9, "fail integrity"},
		{"bad record", false, func(d *desk, _ string) error {
			d.sql(`UPDATE record SET value='[]' WHERE key LIKE 'lease/%'`)
			return nil
		}, 9, "is not a JSON object"},
		{"symlink", false, func(d *desk, db string) error {
			if err := os.Rename(db, d.path("x.db")); err != nil {
				return err
			}
			return os.Symlink(d.path("x.db"), db)
		}, 10, "is a symbolic link"},
		{"folder is a symlink", false, func(d *desk, _ string) error {
			if err := os.Rename(d.path(".tasklock"), d.path("real")); err != nil {
				return err
			}
			return os.Symlink("real", d.path(".tasklock"))
		}, 10, "fail folder     unsafe environment"},
		{"hard link", false, func(d *desk, db string) error { return os.Link(db, d.path("x.db")) }, 10, "hard link"},
		{"others may write", false, func(d *desk, _ string) error { return os.Chmod(d.path(".tasklock"), 0o777) }, 10, "Next: chmod go-w"},
		{"others may read", false, func(d *desk, _ string) error { return os.Chmod(d.path(".tasklock"), 0o755) }, 0, "warn folder"},
		{"folder of another", true, func(d *desk, _ string) error { return os.Chown(d.path(".tasklock"), 12345, -1) }, 10, "belongs to user 12345"},
		{"no folder", false, func(d *desk, _ string) error { return os.RemoveAll(d.path(".tasklock")) }, 0, "warn store      none yet"},
		{"no database", false, func(_ *desk, db string) error { return os.Remove(db) }, 0, "warn store      none yet"},
		{"folder is a file", false, func(d *desk, _ string) error {
			_ = os.RemoveAll(d.path(".tasklock"))
			return os.WriteFile(d.path(".tasklock"), nil, 0o600)
		}, 9, "is not a folder"},
		{"bad configuration", false, func(d *desk, _ string) error {
			return os.WriteFile(d.path(".tasklock/config.yaml"), []byte("x: 1\n"), 0o600)
		}, 3, "config.yaml:1: unknown key"},
		{"owner of all", false, func(d *desk, _ string) error {
			delete(d.env, "TASKLOCK_OWNER")
			return os.WriteFile(d.path(".tasklock/config.yaml"), []byte("owner: us\n"), 0o600)
		}, 0, "warn owner      us is the owner of the whole project"},
		{"agent without id", false, func(d *desk, _ string) error {
			delete(d.env, "TASKLOCK_OWNER")
			d.env["GEMINI_CLI"] = "1"
			return nil
		}, 0, "Next: export TASKLOCK_OWNER=gemini:"},
		{"bad owner", false, func(d *desk, _ string) error { d.env["TASKLOCK_OWNER"] = "a//b"; return nil }, 3, "fail owner"},
		{"expired lock", false, func(d *desk, _ string) error {
			d.sql(`UPDATE record SET value=json_set(value, '$.ttlSeconds', 0.000001) WHERE key LIKE 'lease/%'`)
			return nil
		}, 0, "warn stale      1 lock of holders that are gone"},
		{"lock of the future", false, func(d *desk, _ string) error {
			d.now = func() time.Time { return time.Now().Add(-48 * time.Hour) }
			return nil
		}, 0, "in the future"},
		{"clock of long ago", false, func(d *desk, _ string) error {
			d.now = func() time.Time { return time.Unix(0, 0) }
			return nil
		}, 0, "the clock says 1970"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && !root {
				t.Skip("only root can make files of others")
			}
			d := newDesk(t)
			d.want(0, "", "acquire", "task")
			db := d.path(".tasklock/tasklock.db")
			if err := c.spoil(d, db); err != nil {
				t.Fatal(err)
			}
			before := contents(t, d.dir)
			d.want(c.code, c.text, "doctor")
			if after := contents(t, d.dir); after != before {
				t.Errorf("doctor changed\n%s\nto\n%s", before, after)
			}
			checkDoctorJSON(t, d, c.code)
		})
	}
}

// contents lists the names below a folder and the types of what they name.
// Log and shared memory come and go with whoever opens the database.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !strings.HasSuffix(path, "-wal") && !strings.HasSuffix(path, "-shm") {
			b.WriteString(path + " " + e.Type().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// checkDoctorJSON: the same exit code, valid JSON, and a remedy for whatever
// is not ok.
func checkDoctorJSON(t *testing.T, d *desk, code int) {
	t.Helper()
	got, out := d.run("doctor", "--json")
	var answer struct {
		Success bool
		Data    struct{ Findings []session.Finding }
		Error   *struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || got != code {
		t.Fatalf("exit %d, %v:\n%s", got, err, out)
	}
	if answer.Success != (code == 0) || (answer.Error == nil) != (code == 0) || len(answer.Data.Findings) < 4 {
		t.Errorf("exit %d with\n%s", code, out)
	}
	for _, f := range answer.Data.Findings {
		if f.Level != session.LevelOK && f.Remedy == "" {
			t.Errorf("no remedy: %+v", f)
		}
	}
}

func TestDoctorNamedStore(t *testing.T) {
	d := newDesk(t)
	d.want(3, "fail store", "doctor", "--store", "sqlite:"+d.path("none/x.db"))
	d.want(0, "", "doctor", "-q")
	d.env["TASKLOCK_STORE"] = "sqlite:" + d.path("some/x.db")
	d.want(0, "Made the store", "init")
	d.want(0, "ok   store", "doctor")
}

// TestDoctorPlainPoolKeys: a store from before pools may have a lock on a key that
// means a pool now. The command that doctor names ends it.
func TestDoctorPlainPoolKeys(t *testing.T) {
	d := newDesk(t)
	for _, old := range []string{"pole:db", "pole:a#b"} {
		if code, out := d.run("acquire", old, "--ttl", "none"); code != 0 {
			t.Fatal(out)
		}
		d.sql("UPDATE record SET key = replace(key, 'pole:', 'pool:'), value = replace(value, 'pole:', 'pool:')")
		key := strings.Replace(old, "pole:", "pool:", 1)
		code, out := d.run("doctor")
		if code != 0 || !strings.Contains(out, "warn pools      "+key+" is a plain lock of me, from before pools") {
			t.Fatal(code, out)
		}
		_, next, _ := strings.Cut(out, "Next: tasklock release --lease ")
		next, _, _ = strings.Cut(next, " --owner")
		if code, out := d.run("release", "--lease", next, "--owner", "me"); code != 0 {
			t.Fatal(code, out)
		}
		if _, out := d.run("doctor"); strings.Contains(out, "before pools") {
			t.Fatal(out)
		}
	}
	if code, out := d.run("acquire", "pool:db", "--slots", "2"); code != 0 {
		t.Fatal(code, out)
	}
	if _, out := d.run("doctor"); strings.Contains(out, "before pools") {
		t.Fatal("a slot is not a plain key:", out)
	}
}
