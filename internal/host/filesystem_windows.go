package host

import (
	"io/fs"
	"strings"

	"golang.org/x/sys/windows"
)

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
