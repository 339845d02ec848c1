// Package long sizes the long forms of tests, so that all of them together end
// in time. The variable TASKLOCK_TORTURE asks for them: with 1, "make torture"
// takes somewhat more than an hour on two cores; 10 makes every part ten times as long, 0.1
// a tenth. Parts are given time, not rounds: a slow machine does less in the
// same time.
package long

import (
	"iter"
	"os"
	"strconv"
	"testing"
	"time"
)

// Factor is how long the long forms are, 1 for about an hour; 0: nobody asked for
// them.
func Factor() float64 {
	text := os.Getenv("TASKLOCK_TORTURE")
	if text == "" {
		return 0
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 0 && f <= 1000) {
		panic("TASKLOCK_TORTURE=" + text + " is not a factor: 1 is about an hour")
	}
	return f
}

// Asked reports whether the long forms were asked for.
func Asked() bool { return Factor() > 0 }

// NotShort skips a test that takes seconds, or starts processes by the hundred,
// when go test has the flag -short.
func NotShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs without -short")
	}
}

// Time is what a part gets that has d with TASKLOCK_TORTURE=1.
func Time(d time.Duration) time.Duration { return time.Duration(Factor() * float64(d)) }

// Count is how many there are of what has n with TASKLOCK_TORTURE=1, at least one.
func Count(n int) int { return max(1, int(Factor()*float64(n))) }

// Loop counts the rounds of a test: short of them, or in the long form as many as
// fit into d, at least one. Every minute it tells how far it is.
func Loop(t testing.TB, short int, d time.Duration) iter.Seq[int] {
	t.Helper()
	return func(yield func(int) bool) {
		began, told := time.Now(), time.Now()
		for n := 0; !Asked() && n < short || Asked() && (n == 0 || time.Since(began) < Time(d)); n++ {
			if !yield(n) {
				return
			}
			if time.Since(told) > time.Minute {
				told = time.Now()
				t.Logf("%d rounds in %v of %v", n+1, time.Since(began).Round(time.Second), Time(d))
			}
		}
	}
}

// Seeds is the first seed to run, TASKLOCK_SEED, and how many, TASKLOCK_SEEDS; 0:
// as many as there is time for. Long forms begin with another one each time.
func Seeds(t testing.TB) (first, count uint64) {
	t.Helper()
	first, _ = strconv.ParseUint(os.Getenv("TASKLOCK_SEED"), 10, 64)
	count, _ = strconv.ParseUint(os.Getenv("TASKLOCK_SEEDS"), 10, 64)
	if Asked() && os.Getenv("TASKLOCK_SEED") == "" {
		first = uint64(time.Now().Unix()) * 1000
		t.Logf("from seed %d on", first)
	}
	return first, count
}
