//go:build !race

package lock_test

const (
	crowd = 1000 // waiters for one key
	racy  = false
)
