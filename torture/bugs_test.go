//go:build linux

package torture

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestPlantedBugs shows that the harness can fail: with each of these bugs in
// the workers the run that is clean elsewhere must report a violation.
func TestPlantedBugs(t *testing.T) {
	for _, b := range []struct {
		name  string
		shape func(*Config)
	}{
		{"release_unchecked", func(*Config) {}},
		{"no_compare", func(c *Config) { c.Tries = 100 }},
		{"deferred_transaction", func(c *Config) { c.Tries = 50 }},
		{"empty_is_free", func(c *Config) { c.Tries = 50 }},
		{"reentrant_by_user", func(*Config) {}},
		{"wall_clock_only", func(c *Config) { c.Disturb, c.DisturbEvery = stepClock(c.URL), 500*time.Millisecond }},
	} {
		for _, mode := range []Mode{Library, Binary} {
			t.Run(b.name+"/"+string(mode), func(t *testing.T) {
				c := sqlite(t)
				c.Processes, c.Rounds, c.Seed, c.Limit = 6, 15, 3, 30*time.Second
				c.Mode, c.Binary, c.Bug = mode, command(t), b.name
				if mode == Binary {
					c.Rounds = 8
				}
				if full() {
					c.Processes, c.Rounds, c.Limit = 16, 50, 2*time.Minute
				}
				b.shape(&c)
				r := mustRun(t, c)
				if len(r.Violations) == 0 {
					t.Fatal("the bug was not seen")
				}
				t.Logf("caught:\n%s", r.Failed())
			})
		}
	}
}

// stepClock sets the wall clock of a SQLite store forward by an hour, as far
// as its records can tell.
func stepClock(url string) func() error {
	path := strings.TrimPrefix(url, "sqlite:")
	return func() error {
		out, err := exec.Command("sqlite3", "-cmd", ".timeout 10000", path,
			"UPDATE record SET wall = wall - 3600000000000").CombinedOutput()
		if err != nil && !strings.Contains(string(out), "no such table") {
			return &exec.Error{Name: "sqlite3 " + string(out), Err: err}
		}
		return nil
	}
}
