//go:build !failpoint

package fault

// Enabled reports whether this binary was built with failpoints.
const Enabled = false

// Point marks a place where a test may pause the process.
func Point(string) {}

// Bug reports whether the planted bug of that name is on.
func Bug(string) bool { return false }
