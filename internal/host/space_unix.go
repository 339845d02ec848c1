//go:build unix

package host

import (
	"errors"
	"syscall"
)

// NoSpace reports that err means a full disk, or a quota that is used up.
func NoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
