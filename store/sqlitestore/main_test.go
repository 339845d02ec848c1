package sqlitestore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/sqlitestore"
)

func TestMain(m *testing.M) {
	if job := os.Getenv("SQLITESTORE_CHILD"); job != "" {
		fmt.Println(child(job, os.Getenv("SQLITESTORE_PATH")))
		os.Exit(0) // without Close: a command just goes
	}
	drivertest.Main(m, func(place string) (driver.Store, error) {
		return sqlitestore.Open(context.Background(), place, &sqlitestore.Options{Create: true})
	})
}

// child is what a process of its own does, and says.
func child(job, path string) string {
	ctx := context.Background()
	s, err := sqlitestore.Open(ctx, path, &sqlitestore.Options{Create: job == "fill"})
	if err != nil {
		return answer(err)
	}
	switch job {
	case "fill": // some 250 KB
		var b driver.Batch
		for _, key := range []string{"lock/child", "lock/b", "lock/c", "lock/d"} {
			b.Writes = append(b.Writes, driver.Write{Key: key, Value: []byte(`{"pad":"` + strings.Repeat("x", 60_000) + `"}`)})
		}
		_, err = s.Commit(ctx, b)
	case "read", "page":
		r := driver.Range{}
		if job == "page" {
			r = driver.Range{Prefix: "lock/", After: "lock/001000", Limit: 50}
		}
		var snap driver.Snapshot
		if snap, err = s.Read(ctx, driver.Query{Ranges: []driver.Range{r}}); err == nil {
			return fmt.Sprintf("read %d", len(snap.Records))
		}
	case "write":
		_, err = s.Commit(ctx, put("lock/child", `{}`))
	}
	return answer(err)
}

// answer names the class of an error in one word, before its text.
func answer(err error) string {
	for name, e := range map[string]error{
		"damaged": driver.ErrDamaged, "unsafe": driver.ErrUnsafe, "newer": driver.ErrNewer,
		"missing": driver.ErrMissing, "denied": driver.ErrDenied, "conflict": driver.ErrConflict,
	} {
		if errors.Is(err, e) {
			return name + ": " + err.Error()
		}
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return "ok"
}

// run does job in a process of its own; prepare may change the command.
func run(t *testing.T, job, path string, prepare ...func(*exec.Cmd)) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "SQLITESTORE_CHILD="+job, "SQLITESTORE_PATH="+path)
	for _, p := range prepare {
		p(cmd)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", job, err, out)
	}
	return strings.TrimSpace(string(out))
}

func put(key, value string) driver.Batch {
	return driver.Batch{Writes: []driver.Write{{Key: key, Value: []byte(value)}}}
}

func open(t *testing.T, path string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// shell runs the sqlite3 command, which is how people look into a store.
func shell(t *testing.T, path, sql string) string {
	t.Helper()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Fatal("the sqlite3 shell is missing; run: apt-get install sqlite3")
	}
	out, err := exec.Command("sqlite3", path, sql).CombinedOutput()
	if err != nil {
		t.Fatalf("sqlite3: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}
