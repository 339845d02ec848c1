package filestore_test

import "golang.org/x/sys/unix"

// say prints a line with a system call that nothing else uses, so that a fault
// in another does not hit it.
func say(line string) { _, _ = unix.Writev(1, [][]byte{[]byte(line + "\n")}) }
