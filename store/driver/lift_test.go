package driver

import (
	"math"
	"testing"
	"time"
)

func TestLift(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, rev := range []int64{0, 1, 12_345, 1 << 32, 1 << 45, 1 << 51} {
		for _, since := range []time.Duration{-30 * year, 0, time.Hour, year, 100 * year} {
			got := lift(rev, since, 0)
			if got < rev+1<<32 || got >= MaxRevision {
				t.Errorf("lift(%d, %v) = %d", rev, since, got)
			}
			if since < 0 {
				continue
			}
			if later := lift(rev, since+time.Minute+5*time.Second+600*time.Millisecond, 0); later < got+liftChance {
				t.Errorf("lift(%d, %v) = %d, a minute later only %d", rev, since, got, later)
			}
		}
	}
	for _, rev := range []int64{MaxRevision - 1<<33, MaxRevision - 2} {
		if got := lift(rev, year, liftChance); got <= rev || got >= MaxRevision {
			t.Errorf("lift(%d) = %d", rev, got)
		}
	}
	if got := lift(7, time.Duration(math.MaxInt64), 0); got <= 7 || got >= MaxRevision {
		t.Errorf("a clock far ahead: %d", got)
	}
	rev := int64(0)
	for i := range 20_000 { // one after another, each of the one before
		next := lift(rev, 10*year+time.Duration(i)*time.Second, 0)
		if next < rev+1<<32 || next >= MaxRevision {
			t.Fatalf("lift %d: %d after %d", i, next, rev)
		}
		rev = next
	}
}
