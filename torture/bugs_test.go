//go:build linux

package torture

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// attempts is how many runs a bug may take to show itself: some need two
// processes at one place at one time.
const attempts = 8

// TestPlantedBugs shows that the harness can fail: with each of these bugs in
// the workers the run that is clean elsewhere must report a violation.
func TestPlantedBugs(t *testing.T) {
	for _, b := range []struct {
		name  string
		shape func(*Config)
	}{
		{"release_unchecked", func(c *Config) { c.Keys, c.Probes = 2, 80 }},
		{"no_compare", func(c *Config) { c.Tries = 100 }},
		{"deferred_transaction", func(c *Config) { c.Tries = 50 }},
		{"empty_is_free", func(c *Config) { c.Tries = 50 }},
		{"reentrant_by_user", func(*Config) {}},
		{"wall_clock_only", func(c *Config) { c.Disturb, c.DisturbEvery = stepClock(c.URL), 500*time.Millisecond }},
	} {
		for _, mode := range []Mode{Library, Binary} {
			t.Run(b.name+"/"+string(mode), func(t *testing.T) {
				for seed := uint64(1); seed <= attempts; seed++ {
					c := sqlite.run(t)
					c.Mode, c.Binary, c.Bug, c.Seed = mode, command(t), b.name, seed
					c.Processes, c.Rounds, c.Wait, c.Limit = 6, 15, 10*time.Second, 30*time.Second
					if mode == Binary {
						c.Rounds = 8
					}
					b.shape(&c)
					r, err := Run(c)
					must(t, err)
					if len(r.Violations) > 0 {
						first, _, _ := strings.Cut(r.Violations[0].String(), "\n")
						t.Logf("caught with seed %d after %d grants: %s; first: %s", seed, r.Grants, r.Kinds(), first)
						return
					}
				}
				t.Fatal("the bug was not seen")
			})
		}
	}
}

// stepClock sets the wall clock of a SQLite store forward by an hour, as far
// as its records can tell.
func stepClock(url string) func() error {
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
