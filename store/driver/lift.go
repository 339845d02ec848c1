package driver

import (
	"math/rand/v2"
	"time"
)

// MaxRevision bounds revisions: every JSON reader keeps whole numbers below it
// exact.
const MaxRevision = 1<<53 - 1

const (
	liftBy     = 1 << 32 // more commits than anybody can have seen that are lost now
	liftChance = 1 << 16
)

// liftEpoch is when the clock of Lift begins.
var liftEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Lift returns the revision from which a store goes on whose last known one is
// rev, after commits were lost or may have been: a restored backup, a standby
// that took over, a branch that was put back. It is at least 2^32 above rev. Two
// lifts of one rev differ, and the later one is the larger by more than a
// million for each second between them, so that two stores that come from one
// backup do not give out the same tokens. Where rev is ahead of that clock,
// because the store was lifted a short while ago, they differ by a thousand for
// each second. The result stays below [MaxRevision].
func Lift(rev int64) int64 { return lift(rev, time.Since(liftEpoch), rand.Int64N(liftChance)) }

func lift(rev int64, since time.Duration, chance int64) int64 {
	since = max(0, since)
	next := max(rev, since.Microseconds()) + liftBy + since.Milliseconds() + chance
	if next >= MaxRevision { // a clock that is centuries ahead, or millions of lifts
		return rev + (MaxRevision-rev)/2
	}
	return next
}
