package host

import (
	"errors"

	"golang.org/x/sys/windows"
)

// NoSpace reports whether err means a full disk or a used-up quota.
func NoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) || errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}
