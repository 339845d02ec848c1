//go:build !race

package long

// Racy is true under the race detector.
const Racy = false
