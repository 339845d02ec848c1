//go:build !race

package lease_test

const crowd = 1000 // waiters for one key
