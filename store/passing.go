package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/tasklock/tasklock/store/driver"
)

// MayPass reports whether what a call of a store ran into can be over by itself,
// so that a process that is to go on for ever tries again instead of ending. It
// is the one place that says so.
//
// These can pass: the store is out of reach, its answer was lost, its disk is
// full, it refuses us (it is read-only while a standby takes over, a password is
// being changed), it is being filled or converted, or one record in it is
// damaged, which stops what needs that record and nothing else.
//
// These cannot: another format, no store or another one at that place, records
// that live elsewhere, a store that is damaged, unsafe or closed, and a
// malformed request. Neither can the end of the caller's context, nor an answer
// of the rules, such as a lock that somebody holds.
//
// A process that has just been started does better to end with every
// [driver.Refusal]: whoever started it wants to know of a wrong password.
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
