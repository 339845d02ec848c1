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

// Table returns all processes that the system shows.
func Table() ([]Row, error) {
	procs, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	all := make([]Row, len(procs))
	for i := range procs {
		all[i] = rowFrom(&procs[i])
	}
	return all, err
}

// RowOf returns the row of one process.
func RowOf(pid int) (Row, error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return Row{}, err
	}
	return rowFrom(p), nil
}

func rowFrom(p *unix.KinfoProc) Row {
	return Row{
		PID: int(p.Proc.P_pid), Parent: int(p.Eproc.Ppid), Group: int(p.Eproc.Pgid),
		Start: fmt.Sprint(p.Proc.P_starttime), Ended: p.Proc.P_stat == zombie,
	}
}

// TableIsOurs: this system has no pid namespaces.
func TableIsOurs() bool { return true }

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
