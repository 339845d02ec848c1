package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/tasklock/tasklock/lock"
	"github.com/tasklock/tasklock/place"
	"github.com/tasklock/tasklock/repo"
	"github.com/tasklock/tasklock/runner"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/task"
)

// Exit is an exit code.
type Exit int

// The exit codes. run gives those of its command and these for its own faults.
const (
	ExitOK      Exit = 0  // done; check: locked
	ExitError   Exit = 1  // other errors; check: free, and nothing else
	ExitUsage   Exit = 2  // bad usage, bad input
	ExitSetup   Exit = 3  // not initialised, bad configuration, newer format, moved
	ExitNone    Exit = 4  // not found, nothing ready
	ExitDenied  Exit = 5  // not permitted
	ExitLocked  Exit = 6  // locked, or the wait timed out
	ExitLost    Exit = 7  // lease lost, token stale
	ExitUnknown Exit = 8  // store unreachable, outcome unknown
	ExitDamaged Exit = 9  // store damaged
	ExitUnsafe  Exit = 10 // unsafe environment
	ExitState   Exit = 11 // the state does not allow it
	exitSignal  Exit = 128
)

// exitHelp is the table for people.
const exitHelp = `Exit codes:
  0  done (check: locked)             6  locked, or the wait timed out
  1  other error (check: free)        7  lease lost, token stale
  2  bad usage or input               8  store unreachable, outcome unknown
  3  no store, bad configuration      9  store damaged
  4  not found, nothing ready        10  unsafe environment
  5  not permitted                   11  the state does not allow it
130  interrupted: the queue was left
run exits as its command does.`

// verdict is what an error means to the caller: its exit code and its code in
// JSON.
type verdict struct {
	exit Exit
	code string
}

// judge is the one table from errors to verdicts. The first match counts.
func judge(err error) verdict {
	var (
		held     *lock.HeldError
		lost     *lock.LostError
		cycle    *lock.CycleError
		owner    *lock.OwnerError
		invalid  *lock.InvalidError
		usage    *usageError
		signal   *signalError
		config   *ConfigError
		doubted  *UntrustedError
		denied   *deniedError
		start    *runner.StartError
		ended    *runner.SignalError
		inUse    *lock.InUseError
		state    *task.StateError
		circle   *task.CycleError
		busy     *lock.BusyError
		missing  *task.NotFoundError
		several  *task.AmbiguousError
		names    *lock.AmbiguousError
		running  *runner.RunningError
		outside  *repo.OutsideError
		nowhere  *place.Error
		homeless *noProjectError
		shared   *place.SharedError
	)
	is := func(target error) bool { return errors.Is(err, target) }
	if v, ok := jobVerdict(err); ok {
		return v
	}
	switch {
	case errors.As(err, &signal):
		return verdict{exitSignal + number(signal.signal), "INTERRUPTED"}
	case errors.As(err, &ended):
		return verdict{exitSignal + number(ended.Signal), "INTERRUPTED"}
	case errors.As(err, &start):
		return verdict{Exit(start.ExitCode), "COMMAND_NOT_STARTED"}
	case errors.As(err, &held):
		return verdict{ExitLocked, lockedCode(held.Key)}
	case errors.As(err, &cycle):
		return verdict{ExitLocked, "DEADLOCK"}
	case errors.As(err, &running):
		return verdict{ExitLocked, "RUNNER_RUNNING"}
	case is(lock.ErrQueueFull):
		return verdict{ExitLocked, "QUEUE_FULL"}
	case errors.As(err, &lost) && lost.Never != "":
		return verdict{ExitLost, "NOT_HELD"}
	case is(lock.ErrLost):
		return verdict{ExitLost, "LEASE_LOST"}
	case errors.As(err, &owner), errors.As(err, &denied):
		return verdict{ExitDenied, "PERMISSION_DENIED"}
	case errors.As(err, &doubted):
		return verdict{ExitSetup, "UNTRUSTED_STORE"}
	case errors.As(err, &config):
		return verdict{ExitSetup, "INVALID_CONFIG"}
	case errors.As(err, &nowhere), errors.As(err, &homeless):
		return verdict{ExitSetup, "NO_PLACE"}
	case errors.As(err, &shared):
		return verdict{ExitSetup, "SHARED_STORE"}
	case errors.As(err, &invalid), errors.As(err, &usage), errors.As(err, &outside), is(driver.ErrTooLarge), is(driver.ErrInvalid), is(store.ErrSame), is(store.ErrNotBackup):
		return verdict{ExitUsage, "INVALID_ARGUMENTS"}
	case errors.As(err, &state):
		return verdict{ExitState, "INVALID_STATE"}
	case errors.As(err, &circle):
		return verdict{ExitState, "DEPENDENCY_CYCLE"}
	case errors.As(err, &inUse):
		return verdict{ExitState, "IN_USE"}
	case errors.As(err, &busy):
		return verdict{ExitLocked, "TASK_LOCKED"}
	case errors.As(err, &several), errors.As(err, &names):
		return verdict{ExitUsage, "AMBIGUOUS"}
	case errors.As(err, &missing):
		return verdict{ExitNone, strings.ToUpper(missing.What) + "_NOT_FOUND"}
	case is(task.ErrNothingReady):
		return verdict{ExitNone, "NOTHING_READY"}
	case is(lock.ErrNotFound):
		return verdict{ExitNone, "LOCK_NOT_FOUND"}
	case is(driver.ErrMissing):
		return verdict{ExitSetup, "NOT_INITIALIZED"}
	case is(ErrIncomplete):
		return verdict{ExitSetup, "INCOMPLETE_INSTALLATION"}
	case is(driver.ErrNewer):
		return verdict{ExitSetup, "NEWER_FORMAT"}
	case is(driver.ErrOlder):
		return verdict{ExitSetup, "OLDER_FORMAT"}
	case is(store.ErrMoved):
		return verdict{ExitSetup, "STORE_MOVED"}
	case is(store.ErrFilling):
		return verdict{ExitSetup, "STORE_INCOMPLETE"}
	case is(store.ErrNotEmpty):
		return verdict{ExitState, "STORE_NOT_EMPTY"}
	case is(driver.ErrFull) && !is(store.ErrUnknown):
		return verdict{ExitUnsafe, "DISK_FULL"}
	case is(driver.ErrDenied):
		return verdict{ExitDenied, "PERMISSION_DENIED"}
	case is(store.ErrBackupDamaged):
		return verdict{ExitDamaged, "BACKUP_DAMAGED"}
	case is(driver.ErrDamaged):
		return verdict{ExitDamaged, "STORE_DAMAGED"}
	case is(driver.ErrUnsafe):
		return verdict{ExitUnsafe, "UNSAFE_ENVIRONMENT"}
	case is(store.ErrUnknown):
		return verdict{ExitUnknown, "OUTCOME_UNKNOWN"}
	case is(store.ErrUnreachable):
		return verdict{ExitUnknown, "STORE_UNREACHABLE"}
	}
	return verdict{ExitError, "ERROR"}
}

func lockedCode(key string) string {
	switch kind, _ := lock.KindOf(key); kind {
	case lock.Section:
		return "SECTION_LOCKED"
	case lock.Job:
		return "JOB_LOCKED"
	case lock.Path:
		return "PATH_LOCKED"
	}
	return "TASK_LOCKED"
}

// exitWith ends a command that has said all it had to say with a code.
type exitWith struct{ exit Exit }

func (e *exitWith) Error() string { return fmt.Sprintf("exit %d", e.exit) }

// usageError is a command line that cannot be meant.
type usageError struct {
	text string
	help string // the command whose help explains it, without "tasklock"
}

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{text: fmt.Sprintf(format, args...)} }

// deniedError: it could be done, but needs to be said more clearly.
type deniedError struct {
	text string
	next string
}

func (e *deniedError) Error() string { return e.text }

// hinted is an error with the command that helps here, and nowhere else.
type hinted struct {
	error
	next string
}

func (e *hinted) Unwrap() error { return e.error }

// signalError ends a command that was interrupted while it waited.
type signalError struct{ signal os.Signal }

func (e *signalError) Error() string { return "interrupted" }

func number(s os.Signal) Exit {
	n, _ := s.(syscall.Signal)
	return Exit(n)
}

// interrupted returns the signal that ended ctx in place of the error it
// caused further down.
func interrupted(ctx context.Context, err error) error {
	var s *signalError
	if err != nil && errors.As(context.Cause(ctx), &s) {
		return s
	}
	return err
}
