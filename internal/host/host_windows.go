package host

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
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
	s, _ := look(os.Getpid()) // empty if it cannot be read
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

// OpenPlain is os.OpenFile here.
func OpenPlain(path string, how int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(path, how, mode)
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

// FileSystem names the kind of file system that holds path, or will hold it,
// and reports whether locks and mmap on it work among all processes that can
// reach it: they do not on a drive of another machine.
func FileSystem(path string) (name string, safe bool, err error) {
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return "", false, &fs.PathError{Op: "volume", Path: path, Err: err}
	}
	var root, kind [windows.MAX_PATH + 1]uint16
	if err := windows.GetVolumePathName(p, &root[0], uint32(len(root))); err != nil {
		return "", false, &fs.PathError{Op: "volume", Path: path, Err: err}
	}
	if windows.GetDriveType(&root[0]) == windows.DRIVE_REMOTE {
		return "remote", false, nil
	}
	if err := windows.GetVolumeInformation(&root[0], nil, 0, nil, nil, nil, &kind[0], uint32(len(kind))); err != nil {
		return "", false, &fs.PathError{Op: "volume", Path: path, Err: err}
	}
	return strings.ToLower(windows.UTF16ToString(kind[:])), true, nil
}

// Parent returns the parent of a process, and the name of its program.
func Parent(pid int) (parent int, words []string, err error) {
	all, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return 0, nil, err
	}
	defer windows.CloseHandle(all)
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(all, &entry); err == nil; err = windows.Process32Next(all, &entry) {
		if int(entry.ProcessID) == pid {
			return int(entry.ParentProcessID), []string{windows.UTF16ToString(entry.ExeFile[:])}, nil
		}
	}
	return 0, nil, syscall.ESRCH
}

// NoSpace reports whether err means a full disk or a used-up quota.
func NoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) || errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// Writable cannot be asked without trying: access lists decide.
func Writable(string) error { return nil }
