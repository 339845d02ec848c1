package host

import (
	"errors"

	"golang.org/x/sys/windows"
)

// NoSpace reports that err means a full disk, or a quota that is used up.
func NoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) || errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}
