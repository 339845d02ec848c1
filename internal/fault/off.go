//go:build !failpoint

package fault

import "time"

// Point marks a place where a test may pause the process.
func Point(string) {}

// Shift is how wrong the clock of this process is on purpose.
func Shift() time.Duration { return 0 }
