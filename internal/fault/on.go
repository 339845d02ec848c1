//go:build failpoint

package fault

import (
	"math/rand/v2"
	"os"
	"time"
)

var (
	jitter = os.Getenv("TASKLOCK_FAULT_JITTER") != ""
	shift  = os.Getenv("TASKLOCK_FAULT_SHIFT")
)

// Point pauses one time in four for up to two milliseconds when
// TASKLOCK_FAULT_JITTER is set. Plain stress finds nothing; this does.
func Point(string) {
	if jitter && rand.IntN(4) == 0 {
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
	}
}

// Shift is how wrong the clock of this process is on purpose: the duration in
// TASKLOCK_FAULT_SHIFT.
func Shift() time.Duration {
	d, _ := time.ParseDuration(shift)
	return d
}
