// Package patience lets tests wait for what other goroutines and processes do in
// their own time. A test waits for the event, never for a time that should be
// enough: on a busy machine no time is.
package patience

import (
	"testing"
	"time"
)

// Limit is how long a test waits for what takes a moment on a machine that nobody
// else uses.
const Limit = 2 * time.Minute

// Until waits until is returns true. The test ends when that takes longer than Limit;
// what says what was missing.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	Within(t, Limit, what, is)
}

// Within is Until with another limit. It returns how long the test waited.
func Within(t testing.TB, limit time.Duration, what string, is func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began)
}
