//go:build unix

package host

import (
	"errors"
	"syscall"
)

// NoSpace reports whether err means a full disk or a used-up quota.
func NoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
