package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	hasNamespaces = true
	awakeClock    = unix.CLOCK_MONOTONIC

	// The kernel gives the first time namespace a fixed number.
	firstTimeNamespace = "time:[4026531834]"
)

func readBootID() string {
	b, _ := readProc("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// readProc reads a file that the kernel makes up, with half of os.ReadFile's system calls.
func readProc(path string) ([]byte, error) {
	f, err := OpenPlain(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}

// pidNamespace names the namespace of our pid. The kernel may use the number
// again once the namespace is gone, but then all its processes are gone too, so
// an old record never leads to a false death.
func pidNamespace() string {
	link, _ := os.Readlink("/proc/self/ns/pid")
	return link
}

// timeNamespace names what shifts our clocks: empty for the machine's own
// time. Numbers of dead namespaces are used again, so the offsets are part of
// the name.
var timeNamespace = sync.OnceValues(func() (string, error) {
	link, err := os.Readlink("/proc/self/ns/time")
	if errors.Is(err, fs.ErrNotExist) || link == firstTimeNamespace {
		return "", nil // also a kernel that has no time namespaces
	}
	if err != nil {
		return "", err
	}
	offsets, err := readProc("/proc/self/timens_offsets")
	if err != nil {
		return "", err
	}
	return "@" + link + "," + strings.Join(strings.Fields(string(offsets)), ","), nil
})

var awakeDomain = sync.OnceValue(func() string {
	ns, err := timeNamespace()
	if err != nil || BootID() == "" {
		return ""
	}
	return BootID() + ns
})

func ownStart() string {
	s, _ := sight("self") // empty if it cannot be read
	return s.start
}

// look reads the start time of a process of our namespace.
func look(pid int) (sighting, error) {
	if !procIsOurs() {
		return sighting{}, errors.New("/proc belongs to another pid namespace")
	}
	return sight(strconv.Itoa(pid))
}

func sight(pid string) (sighting, error) {
	st, err := readStat(pid)
	if err != nil {
		return sighting{}, err
	}
	// The kernel shifts start times by the reader's time namespace.
	clock, err := timeNamespace()
	if err != nil {
		return sighting{}, err
	}
	return sighting{start: st.start + clock, ended: st.ended()}, nil
}

// procIsOurs reports whether /proc counts pids as kill(2) does. After
// "unshare --pid" without a new /proc it does not: there /proc/1 is the init
// of the machine, and comparing its start time would prove a false death.
var procIsOurs = sync.OnceValue(func() bool {
	b, err := readProc("/proc/self/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		// Our pid in each namespace from that of /proc down to our own.
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(pids)) == 1
		}
	}
	return false
})

// stat is the part of /proc/PID/stat that we use.
type stat struct {
	name    string
	state   byte
	parent  int
	group   int
	tty     uint32
	threads int
	start   string
}

// ended reports whether the whole process is over. The main thread alone may
// end and show as a zombie while other threads work on.
func (s stat) ended() bool {
	return strings.IndexByte("ZXx", s.state) >= 0 && s.threads <= 1
}

func readStat(pid string) (stat, error) {
	b, err := readProc("/proc/" + pid + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(b))
}

// parseStat counts fields from the last ')': the process chooses the name before
// it, which may hold anything, even ") R 1".
func parseStat(line string) (stat, error) {
	const first = 3 // proc(5) numbers the field after the name 3
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	f := strings.Fields(line[end+1:])
	if open < 0 || end < open || len(f) <= 22-first {
		return stat{}, fmt.Errorf("short stat line %q", line)
	}
	parent, err1 := strconv.Atoi(f[4-first])
	group, err2 := strconv.Atoi(f[5-first])
	tty, err3 := strconv.ParseInt(f[7-first], 10, 64)
	threads, err4 := strconv.Atoi(f[20-first])
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return stat{}, err
	}
	return stat{line[open+1 : end], f[0][0], parent, group, uint32(tty), threads, f[22-first]}, nil
}

// Table returns all processes that the system shows.
func Table() (all []Row, err error) {
	pids, err := listed()
	for _, name := range pids {
		pid, _ := strconv.Atoi(name)
		if row, err := RowOf(pid); err == nil { // else it ended while we walked
			all = append(all, row)
		}
	}
	return all, err
}

// RowOf returns the row of one process.
func RowOf(pid int) (Row, error) {
	st, err := readStat(strconv.Itoa(pid))
	return Row{PID: pid, Parent: st.parent, Group: st.group, Start: st.start, Ended: st.ended()}, err
}

// TableIsOurs reports whether the numbers of the table are those of kill(2).
func TableIsOurs() bool { return procIsOurs() }

// Terminal names the controlling terminal of this process, as in "pts-3".
// Empty when there is none.
func Terminal() string {
	st, err := readStat("self")
	if err != nil || st.tty == 0 {
		return ""
	}
	return terminalName(unix.Major(uint64(st.tty)), unix.Minor(uint64(st.tty)))
}

func terminalName(major, minor uint32) string {
	if major >= 136 && major <= 143 { // pseudo terminals have no entry in /sys
		return fmt.Sprintf("pts-%d", (major-136)<<8+minor)
	}
	b, _ := readProc(fmt.Sprintf("/sys/dev/char/%d:%d/uevent", major, minor))
	for line := range strings.Lines(string(b)) {
		if dev, ok := strings.CutPrefix(line, "DEVNAME="); ok {
			return strings.ReplaceAll(strings.TrimSpace(dev), "/", "-")
		}
	}
	return fmt.Sprintf("tty-%d-%d", major, minor)
}

// judge cuts the number to 32 bits: its Go type, and with it the sign, depends
// on the architecture.
func judge(st *unix.Statfs_t) (name string, safe bool) {
	return linuxFileSystem(uint32(st.Type))
}

// Parent returns the parent of a process, and the visible words of the process's
// own command line. The name that the process gave itself comes first.
func Parent(pid int) (parent int, words []string, err error) {
	if !procIsOurs() {
		return 0, nil, errors.New("/proc belongs to another pid namespace")
	}
	st, err := readStat(strconv.Itoa(pid))
	if err != nil {
		return 0, nil, err
	}
	words = []string{st.name}
	if args, err := readProc("/proc/" + strconv.Itoa(pid) + "/cmdline"); err == nil {
		words = append(words, strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")...)
	}
	return st.parent, words, nil
}
