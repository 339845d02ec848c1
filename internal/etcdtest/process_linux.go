package etcdtest

import "syscall"

const (
	stopSignal = syscall.SIGSTOP
	contSignal = syscall.SIGCONT
)

// dieWithParent has the kernel end the server when the tests end, however that
// happens.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
