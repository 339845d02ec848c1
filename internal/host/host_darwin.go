package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	hasNamespaces = false
	awakeClock    = unix.CLOCK_UPTIME_RAW

	zombie     = 5  // SZOMB of sys/proc.h
	noTerminal = -1 // NODEV of sys/param.h
)

func readBootID() string {
	id, _ := unix.Sysctl("kern.bootsessionuuid")
	return strings.TrimSpace(id)
}

func pidNamespace() string { return "" }

var awakeDomain = sync.OnceValue(BootID)

func ownStart() string {
	s, _ := look(os.Getpid()) // empty if it cannot be read
	return s.start
}

func look(pid int) (sighting, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return sighting{}, err
	}
	t := k.Proc.P_starttime
	return sighting{
		start: fmt.Sprintf("%d.%06d", t.Sec, t.Usec),
		ended: k.Proc.P_stat == zombie,
	}, nil
}

// membersLife is Alive: this kernel leaves zombies out when it signals a
// group, so the one that answered runs.
func membersLife(int) Life { return Alive }

// Terminal names the controlling terminal of this process, as in "ttys003".
// Empty when there is none.
func Terminal() string {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", os.Getpid())
	if err != nil || k.Eproc.Tdev == noTerminal {
		return ""
	}
	devices, _ := filepath.Glob("/dev/tty*")
	for _, dev := range append(devices, "/dev/console") {
		var st unix.Stat_t
		if unix.Stat(dev, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == k.Eproc.Tdev {
			return filepath.Base(dev)
		}
	}
	return ""
}

func judge(st *unix.Statfs_t) (name string, safe bool) {
	name = unix.ByteSliceToString(st.Fstypename[:])
	return name, darwinFileSystem(name, st.Flags&unix.MNT_LOCAL != 0)
}

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
