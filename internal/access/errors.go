package access

import (
	"errors"
	"fmt"
)

// ErrRevoked: the key that makes another one is not valid any more.
var ErrRevoked = errors.New("the access key was revoked or has expired")

// DeniedError: the key does not allow it.
type DeniedError struct{ Why string }

func (e *DeniedError) Error() string { return "not permitted: " + e.Why }

// NotFoundError: there is no such key.
type NotFoundError struct{ ID string }

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no access key %.40q", e.ID) }
