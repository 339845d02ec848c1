//go:build linux

package torture

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/tasklock/tasklock/store/sqlitestore"
)

// sqlite is a run over a new SQLite store.
func sqlite(t *testing.T) Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store", "tasklock.db")
	return Config{
		URL: "sqlite:" + path, Dir: t.TempDir(), Worker: workerProgram(t),
		Jitter: true, Tries: 30, Batches: 20,
		KillEvery: 300 * time.Millisecond, PauseEvery: 1500 * time.Millisecond,
		Damage: func() []string {
			r, err := sqlitestore.Inspect(t.Context(), path)
			if err != nil {
				return []string{err.Error()}
			}
			return r.Problems
		},
	}
}

func mustRun(t *testing.T, c Config) *Report {
	t.Helper()
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	return r
}

func TestContentionLibrary(t *testing.T) {
	c := sqlite(t)
	c.Seed = 1
	if full() {
		c.Rounds = 500
	}
	if r := mustRun(t, c); r.Failed() != "" {
		t.Fatal(r.Failed())
	}
}
