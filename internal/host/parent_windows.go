package host

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

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
