//go:build linux

package torture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/torture/long"
)

// attempts is how many runs a bug may take to show itself: some need two
// processes at one place at one time.
const attempts = 8

// planted is a bug, and the run that brings it out.
type planted struct {
	name  string
	shape func(*Config)
}

// plantedBugs are those in the rules, which all backends share.
var plantedBugs = []planted{
	{"release_unchecked", func(c *Config) { c.Keys, c.Probes = 2, 80 }},
	{"no_compare", func(c *Config) { c.Tries = 100 }},
	{"lock_before_lease", func(c *Config) { c.Tries = 50 }},
	{"reentrant_by_user", func(*Config) {}},
}

// everyBug reports whether there is time for every bug on every backend in every
// mode: the rules are the same on all of them.
func everyBug() bool { return long.Factor() >= 5 }

// planted lists the bugs that this backend's runs must catch.
func (b backend) planted() []planted {
	all := slices.Concat(plantedBugs, b.bugs)
	if b.stepClock != nil {
		all = append(all, planted{"wall_clock_only", func(c *Config) {
			c.Disturb, c.DisturbEvery = b.stepClock(c.URL), 500*time.Millisecond
		}})
	}
	if b.brief.modes == nil || everyBug() {
		return all
	}
	return slices.DeleteFunc(all, func(p planted) bool { return !slices.Contains(b.brief.bugs, p.name) })
}

// TestPlantedBugs shows that the harness can fail: with each of these bugs in
// the workers the run that is clean elsewhere must report a violation.
func TestPlantedBugs(t *testing.T) {
	eachBackend(t, func(t *testing.T, b backend) {
		for _, bug := range b.planted() {
			for i, mode := range b.modes() {
				if i > 0 && b.brief.modes != nil && !everyBug() {
					break
				}
				t.Run(bug.name+"/"+string(mode), func(t *testing.T) { mustCatch(t, bug, func() Config { return b.suspect(t, mode) }) })
			}
		}
	})
}

// suspect is a short run, for workers with a bug.
func (b backend) suspect(t *testing.T, mode Mode) Config {
	c := b.run(t, mode)
	c.Last = 0
	c.Processes, c.Rounds, c.Wait = min(6, c.Processes), min(15, c.Rounds), min(10*time.Second, c.Wait)
	if mode == Binary {
		c.Rounds = min(8, c.Rounds)
	}
	c.Limit = 30 * b.ttl
	return c
}

func mustCatch(t *testing.T, bug planted, run func() Config) {
	for seed := uint64(1); seed <= attempts; seed++ {
		c := run()
		c.Bug, c.Seed = bug.name, seed
		bug.shape(&c)
		r, err := Run(c)
		must(t, err)
		if len(r.Violations) > 0 {
			first, _, _ := strings.Cut(r.Violations[0].String(), "\n")
			t.Logf("caught with seed %d after %d grants: %s; first: %s", seed, r.Grants, r.Kinds(), first)
			return
		}
	}
	t.Fatal("the bug was not seen")
}
