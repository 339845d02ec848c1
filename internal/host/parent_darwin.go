package host

import (
	"golang.org/x/sys/unix"
)

// Parent returns the parent of a process, and the visible words of the process's
// own command line. The name that the system shows comes first.
func Parent(pid int) (parent int, words []string, err error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, nil, err
	}
	words = []string{unix.ByteSliceToString(k.Proc.P_comm[:])}
	if args, err := unix.SysctlRaw("kern.procargs2", pid); err == nil { // of our own user's only
		words = append(words, commandWords(args)...)
	}
	return int(k.Eproc.Ppid), words, nil
}
