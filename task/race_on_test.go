//go:build race

package task_test

// racy: everything takes ten times as long.
const racy = true
