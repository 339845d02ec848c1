package host

import (
	"os"

	"golang.org/x/sys/unix"
)

// OnEnd calls fn when the process may have ended, or stop was called. It reports false
// if the kernel does not tell, or the process is not certainly alive: then callers look
// now and then.
func (p Process) OnEnd(fn func()) (stop func(), ok bool) {
	fd, err := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	conn, err := f.SyscallConn()
	if err != nil || p.Life() != Alive { // asked last: what was opened is not a younger process of that number
		_ = f.Close()
		return nil, false
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = conn.Read(func(fd uintptr) bool {
			n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return n > 0
		})
		fn()
	}()
	return func() {
		_ = f.Close() // ends the read
		<-done
	}, true
}
