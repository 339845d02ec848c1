//go:build linux

package torture

import (
	"os"
	"testing"
	"time"
)

// run is a run of workers over a new store.
func (b backend) run(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	return Config{
		URL: b.url(dir), Dir: t.TempDir(), Worker: workerProgram(t),
		Jitter: true, Tries: 30, Batches: 20,
		KillEvery: 300 * time.Millisecond, PauseEvery: 2 * time.Second,
		Damage: func() []string { return append(b.damage(dir), b.doctor(command(t), dir)...) },
	}
}

// long makes it the long form: more of everything, faults a little further
// apart so that it ends.
func (c *Config) long(rounds int) {
	c.Rounds, c.Limit = rounds, 40*time.Minute
	c.KillEvery, c.PauseEvery = 500*time.Millisecond, 5*time.Second
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

// TestContention: no overlap, tokens grow, no BUSY, every waiter is served,
// whatever is killed or stopped.
func TestContention(t *testing.T) {
	t.Run("library", func(t *testing.T) {
		c := sqlite.run(t)
		c.Seed = 1
		if full() {
			c.long(500)
		}
		clean(t, c)
	})
	t.Run("binary", func(t *testing.T) {
		c := sqlite.run(t)
		c.Mode, c.Binary, c.Seed, c.Rounds = Binary, command(t), 2, 12
		if full() {
			c.long(500)
		}
		clean(t, c)
	})
}

// TestClockSteps: the wall clock jumps again and again, and nobody loses a
// lease for it.
func TestClockSteps(t *testing.T) {
	c := sqlite.run(t)
	c.Processes, c.Rounds, c.Seed = 8, 15, 4
	if full() {
		c.long(200)
	}
	c.Disturb, c.DisturbEvery = stepClock(c.URL), 300*time.Millisecond
	clean(t, c)
}

func clean(t *testing.T, c Config) {
	t.Helper()
	if r := mustRun(t, c); r.Failed() != "" {
		kept, err := os.MkdirTemp("", "tasklock-torture-failed-")
		if err == nil {
			err = os.CopyFS(kept, os.DirFS(c.Dir))
		}
		t.Fatalf("%s\nthe histories are kept in %s (%v)", r.Failed(), kept, err)
	}
}
