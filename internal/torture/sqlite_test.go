//go:build linux

package torture

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/tasklock/tasklock/store/sqlitestore"
)

var sqlite = backend{
	name: "sqlite", scheme: "sqlite",
	open:      open,
	at:        func(dir string) string { return "sqlite:" + filepath.Join(dir, "store", "tasklock.db") },
	files:     []string{"tasklock.db", "tasklock.db-wal", "tasklock.db-shm", "tasklock.db.d", ".gitignore"},
	damage:    problems,
	ttl:       time.Second,
	tasks:     12,
	stepClock: stepSQLite,
	bugs:      []planted{{"deferred_transaction", func(c *Config) { c.Tries = 50 }}},
}

// stepSQLite sets the wall clock of a SQLite store forward by an hour, as far
// as its records can tell.
func stepSQLite(url string) func() error {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		return func() error { return errors.New("the sqlite3 shell is missing; run: apt-get install sqlite3") }
	}
	path := strings.TrimPrefix(url, "sqlite:")
	return func() error {
		out, err := exec.Command("sqlite3", "-cmd", ".timeout 10000", path,
			"UPDATE record SET wall = wall - 3600000000000").CombinedOutput()
		if err != nil && !strings.Contains(string(out), "no such table") {
			return fmt.Errorf("sqlite3: %w: %s", err, out)
		}
		return nil
	}
}
