package host

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

const hasNamespaces = false

// BootID is empty: Windows names no boot, so no death is ever proven here.
func BootID() string { return "" }

func pidNamespace() string { return "" }

func ownStart() string {
	s, err := look(os.Getpid())
	if err != nil {
		return ""
	}
	return s.start
}

func look(pid int) (sighting, error) {
	h, err := open(pid)
	if err != nil {
		return sighting{}, err
	}
	defer windows.CloseHandle(h)
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return sighting{}, err
	}
	return sighting{
		start: strconv.FormatInt(created.Nanoseconds(), 10),
		ended: exited != windows.Filetime{},
	}, nil
}

func open(pid int) (windows.Handle, error) {
	return windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
}

// signal0 answers in the words of kill(2).
func signal0(pid int) error {
	h, err := open(pid)
	switch {
	case errors.Is(err, windows.ERROR_INVALID_PARAMETER):
		return syscall.ESRCH
	case errors.Is(err, windows.ERROR_ACCESS_DENIED):
		return syscall.EPERM
	case err != nil:
		return err
	}
	return windows.CloseHandle(h)
}

// membersLife is never asked: there are no process groups.
func membersLife(int) Life { return Unknown }

var unbiased = windows.NewLazySystemDLL("kernel32.dll").NewProc("QueryUnbiasedInterruptTime")

// Awake reads the time the machine was awake since boot. The domain is empty,
// for want of a boot id: compare wall clocks instead.
func Awake() (reading time.Duration, domain string) {
	var ticks uint64 // of 100 ns
	unbiased.Call(uintptr(unsafe.Pointer(&ticks)))
	return time.Duration(ticks * 100), ""
}

// Terminal is empty: consoles have no names here.
func Terminal() string { return "" }

// SessionStart is empty: there are no session leaders here.
func SessionStart() string { return "" }

// Owner is unknown: files belong to security identifiers, not to numbers.
func Owner(fs.FileInfo) (uid int, ok bool) { return 0, false }
