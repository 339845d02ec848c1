//go:build unix

package lease_test

import "syscall"

// groupOfTest is a process group that certainly lives.
func groupOfTest() int { return syscall.Getpgrp() }
