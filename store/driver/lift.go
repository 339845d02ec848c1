package driver

import (
	"math/rand/v2"
	"time"
)

// MaxRevision bounds revisions: every JSON reader keeps whole numbers below it
// exact.
const MaxRevision = 1<<53 - 1

const (
	liftBy     = 1 << 32 // more than the commits that can be lost
	liftRate   = 2       // revisions for each microsecond of the clock
	liftLatest = 1 << 52 // where the clock ends, in 2097: a wrong clock uses up at most half
	liftChance = 1 << 28 // revisions that chance adds: two minutes of the clock
)

// liftEpoch is when the clock of Lift begins.
var liftEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Lift returns the revision from which a store continues in a new life: after a
// restored backup, a move, a promoted standby, a rewound branch. rev is the last
// known revision. Commits may be lost, and another store may continue from the
// same state. So the result depends on what no copy holds, the time and chance,
// and is at least 2^32 above rev.
//
// Two lives that begin at the same state give out different tokens: one that
// makes n commits meets a token of the other with a probability of at most
// n/2^27. If the second begins more than three minutes after the first, its
// tokens are larger, unless the state itself is ahead of that clock because it
// was lifted within the last 36 minutes.
//
// The result stays below [MaxRevision]: after a million lifts in a row, each
// takes half of what is left.
func Lift(rev int64) int64 { return lift(rev, time.Since(liftEpoch), rand.Int64N(liftChance)) }

func lift(rev int64, since time.Duration, chance int64) int64 {
	clock := min(max(0, since.Microseconds())*liftRate, liftLatest)
	if next := max(rev+liftBy, clock) + chance; next < MaxRevision {
		return next
	}
	return rev + max(1, (MaxRevision-rev)/2)
}
