//go:build linux

package torture

import (
	"os"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// run is a run of workers over a new store.
func (b backend) run(t *testing.T, mode Mode) Config {
	t.Helper()
	p := b.place(t)
	c := Config{
		URL: p.url, Dir: tempDir(t), Env: p.only, Worker: workerProgram(t), Mode: mode, Binary: command(t),
		Jitter: true, Tries: 30, Batches: 20,
		KillEvery: 300 * time.Millisecond, PauseEvery: 2 * time.Second,
		Damage: func() []string { return p.wrong(t) },
	}
	if c = c.withDefaults(); mode == Binary {
		c.Rounds = 6
	}
	if full() {
		c.long(contentionTime)
	}
	if b.race != nil {
		b.race(&c)
	}
	return c
}

// What each run gets in the long form. There are fourteen of contention: six
// backends and git over ssh, the library and the command.
const (
	contentionTime = 50 * time.Second
	outageTime     = 80 * time.Second
)

// long makes it the long form: it lasts that long, faults are a little further
// apart.
func (c *Config) long(d time.Duration) {
	c.Rounds, c.Last = 1<<20, long.Time(d)
	c.Limit = c.Last + 10*time.Minute
	c.KillEvery, c.PauseEvery = 500*time.Millisecond, 5*time.Second
}

// withOutages is for a server that goes away again and again. Its short form has
// that many rounds.
func (c *Config) withOutages(rounds int) {
	c.Rounds = rounds
	if full() {
		c.long(outageTime)
	}
	c.TTL, c.Late, c.Wait, c.Outages = 6*time.Second, time.Minute, 3*time.Minute, true
	c.KillEvery, c.PauseEvery, c.Pause = 2*time.Second, 10*time.Second, 2*c.TTL
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
	contention := func(t *testing.T, b backend) {
		for _, mode := range b.modes() {
			t.Run(string(mode), func(t *testing.T) {
				c := b.run(t, mode)
				c.Seed = uint64(len(mode)) // any will do
				clean(t, c)
			})
		}
	}
	eachBackend(t, contention)
	if full() {
		t.Run(gitSSH.name, func(t *testing.T) { contention(t, gitSSH) })
	}
}

// TestClockSteps: the wall clock jumps again and again, and nobody loses a
// lease for it.
func TestClockSteps(t *testing.T) {
	for _, b := range backends {
		if b.stepClock == nil {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			c := b.run(t, Library)
			c.Processes, c.Rounds, c.Seed = 8, 15, 4
			if full() {
				c.long(contentionTime)
			}
			c.Disturb, c.DisturbEvery = b.stepClock(c.URL), 300*time.Millisecond
			clean(t, c)
		})
	}
}

func clean(t *testing.T, c Config) *Report {
	t.Helper()
	r := mustRun(t, c)
	if r.Failed() != "" {
		kept, err := os.MkdirTemp("", "tasklock-torture-failed-")
		if err == nil {
			err = os.CopyFS(kept, os.DirFS(c.Dir))
		}
		t.Fatalf("%s\nthe histories are kept in %s (%v)", r.Failed(), kept, err)
	}
	return r
}
