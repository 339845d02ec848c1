//go:build !linux

package etcdtest

import "syscall"

// Elsewhere tests end their servers themselves, and do not pause them.
const stopSignal, contSignal = 17, 19

func dieWithParent() *syscall.SysProcAttr { return nil }
