//go:build race

package long

// Racy: the race detector watches, and everything takes ten times as long.
const Racy = true
