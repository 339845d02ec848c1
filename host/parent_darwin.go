package host

import (
	"golang.org/x/sys/unix"
)

// Parent returns the parent of a process, and the name of the process.
func Parent(pid int) (parent int, words []string, err error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, nil, err
	}
	return int(k.Eproc.Ppid), []string{unix.ByteSliceToString(k.Proc.P_comm[:])}, nil
}
