package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/tasklock/tasklock/store/driver"
)

// MayPass reports whether a trouble of the store can end without help, so that
// a process that runs for ever tries again instead of ending. No other place
// decides this.
//
// These can pass: the store is unreachable, its answer was lost, its disk is
// full, it refuses us (it is read-only while a standby takes over, somebody
// changes a password), it is being filled or converted, or one record in it is
// damaged, which stops only what needs that record.
//
// These cannot: another format, no store or another one at that place, records
// that have moved, a store that is damaged, unsafe or closed, and a malformed
// request. Neither can the end of the caller's context, nor an answer of the
// rules, such as a held lock.
//
// A process that has just started should end with every [driver.Refusal]: the
// person who started it wants to know of a wrong password.
func MayPass(err error) bool {
	is := func(list ...error) bool {
		for _, target := range list {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	var record *RecordError
	var older *OlderError
	switch {
	case err == nil || is(driver.ErrClosed, ErrMoved):
		return false
	case is(driver.ErrDenied, ErrFilling):
		return true
	case errors.As(err, &older):
		return older.Converting
	case errors.As(err, &record):
		return record.Key != metaKey
	case driver.Refusal(err):
		return false
	}
	return unwritten(err) || is(ErrUnreachable, ErrUnknown, context.DeadlineExceeded)
}

// RecordError: one record cannot be read. It is a [driver.ErrDamaged].
type RecordError struct {
	Key string
	Err error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%v: record %q: %v", driver.ErrDamaged, e.Key, e.Err)
}

// Unwrap makes it a driver.ErrDamaged.
func (e *RecordError) Unwrap() []error { return []error{driver.ErrDamaged, e.Err} }

// Transient is MayPass for a call that somebody waits for: a damaged record
// needs a person, and does not pass soon.
func Transient(err error) bool { return MayPass(err) && !errors.Is(err, driver.ErrDamaged) }
