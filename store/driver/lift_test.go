package driver

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

const year = 365 * 24 * time.Hour

func TestLift(t *testing.T) {
	for _, rev := range []int64{0, 1, 12_345, 1 << 32, 1 << 45, 1 << 51, 1 << 52} {
		for _, since := range []time.Duration{math.MinInt64, -30 * year, 0, time.Hour, year, 70 * year, 100 * year, math.MaxInt64} {
			for _, chance := range []int64{0, liftChance - 1} {
				if got := lift(rev, since, chance); got < rev+1<<32 || got >= MaxRevision {
					t.Errorf("lift(%d, %v, %d) = %d", rev, since, chance, got)
				}
			}
		}
	}
	for _, rev := range []int64{MaxRevision - 1<<33, MaxRevision - 1<<31, MaxRevision - 2} {
		if got := lift(rev, year, liftChance); got <= rev || got >= MaxRevision {
			t.Errorf("lift(%d) = %d", rev, got)
		}
	}
	if got := lift(MaxRevision+7, year, 0); got <= MaxRevision+7 {
		t.Errorf("beyond the limit: %d", got)
	}
}

// Of two lives that begin at one state, the later one has the larger tokens
// whatever chance adds, also after a million commits of the earlier one.
func TestLiftInOrder(t *testing.T) {
	for _, rev := range []int64{0, 12_345, 1 << 32} {
		for _, since := range []time.Duration{3 * time.Hour, year, 30 * year} {
			first := lift(rev, since, liftChance-1) + 1_000_000
			if second := lift(rev, since+3*time.Minute, 0); second <= first {
				t.Errorf("from %d after %v: %d, three minutes later %d", rev, since, first, second)
			}
		}
	}
}

// A million lifts at once, each of the one before, stay below the limit and
// are each 2^32 above the last.
func TestLiftsInARow(t *testing.T) {
	rev := int64(0)
	for i := range 1_000_000 {
		next := lift(rev, 10*year, rand.Int64N(liftChance))
		if next < rev+1<<32 || next >= MaxRevision {
			t.Fatalf("lift %d: %d after %d", i, next, rev)
		}
		rev = next
	}
	for rev < MaxRevision-1 {
		next := lift(rev, 10*year, liftChance-1)
		if next <= rev || next > MaxRevision {
			t.Fatalf("%d after %d", next, rev)
		}
		rev = next
	}
}

// Two lives of one state that begin at the same instant, each with ten thousand
// commits: the ranges of their tokens overlap once in 13,000 times.
func TestLivesApart(t *testing.T) {
	const pairs, commits = 20_000, 10_000
	met := 0
	for range pairs {
		a, b := lift(77, year, rand.Int64N(liftChance)), lift(77, year, rand.Int64N(liftChance))
		if max(a, b)-min(a, b) < commits {
			met++
		}
	}
	if met > 20 { // 1.5 are expected
		t.Errorf("%d of %d pairs of lives give out the same tokens", met, pairs)
	}
}
