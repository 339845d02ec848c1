//go:build race

package lease_test

// The race detector makes everything ten times slower.
const crowd = 200
