// Command tasklock keeps concurrent workers from doing the same task twice.
package main

import (
	"os"

	"github.com/tasklock/tasklock/internal/backend"
	"github.com/tasklock/tasklock/internal/cli"
)

var version string // set by the linker

func main() {
	deepen(0)
	can := backend.Program(version)
	can.Plus = plus
	os.Exit(cli.Main(os.Args[1:], backend.Process(), can))
}

// deepen makes the stack large at once. SQLite's calls would let it grow in several
// steps, and each copies all frames.
//
//go:noinline
func deepen(i int) byte {
	var frame [24 << 10]byte
	return frame[i]
}
