//go:build !race

package task_test

const racy = false
