package sqlitestore

import (
	"errors"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

// explain turns SQLite's error into an answer of the contract, if there is one,
// and names the file.
func explain(err error, path string) error {
	if err == nil || driver.Refusal(err) || errors.Is(err, driver.ErrConflict) {
		return err
	}
	if errors.Is(err, errNoState) {
		return fmt.Errorf("%w: %s: %w; restore it from a backup", driver.ErrDamaged, path, err)
	}
	code := sqlite.ErrCode(err)
	switch code.ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB, sqlite.ResultFormat:
		return fmt.Errorf("%w: %s: %w; restore it from a backup", driver.ErrDamaged, path, err)
	case sqlite.ResultError, sqlite.ResultMismatch, sqlite.ResultConstraint:
		// Our statements are fixed: if one is wrong, the tables are.
		return fmt.Errorf("%w: %s does not have our tables: %w; restore it from a backup", driver.ErrDamaged, path, err)
	case sqlite.ResultReadOnly, sqlite.ResultPerm, sqlite.ResultAuth:
		return fmt.Errorf("%w: %s cannot be written: %w", driver.ErrDenied, path, err)
	case sqlite.ResultCantOpen:
		if !readable(path) {
			return fmt.Errorf("%w: %s cannot be read: %w", driver.ErrDenied, path, err)
		}
	case sqlite.ResultFull: // it was rolled back
		return full(err, path)
	}
	if code == sqlite.ResultIOErrWrite && noRoom(path) { // SQLite's code for a used-up quota
		return full(err, path)
	}
	if code == sqlite.ResultIOErrShortRead {
		return fmt.Errorf("%w: %s is cut short: %w; restore it from a backup", driver.ErrDamaged, path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

func full(err error, path string) error {
	return fmt.Errorf("%w: %s: %w; make room and repeat the command", driver.ErrFull, path, err)
}

// explainRead is explain for calls that write no record. SQLite needs room for
// the memory that readers share with writers, and gives no other reason.
func explainRead(err error, path string) error {
	if err != nil && sqlite.ErrCode(err).ToPrimary() == sqlite.ResultIOErr && noRoom(path) {
		return full(err, path)
	}
	return explain(err, path)
}

// noRoom tries to write a file next to the database.
func noRoom(path string) bool {
	f, err := os.CreateTemp(path+".d", "room-*")
	if err != nil {
		return host.NoSpace(err)
	}
	_, err = f.WriteAt(make([]byte, 2*pageSize), 0)
	_, _ = f.Close(), os.Remove(f.Name())
	return host.NoSpace(err)
}

// busy reports whether another connection blocks this one for now.
func busy(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return true
	}
	return false
}

// denies reports whether we may look but not write.
func denies(err error) bool {
	return sqlite.ErrCode(err).ToPrimary() == sqlite.ResultReadOnly
}

// frozen reports whether SQLite could not make the shared memory it needs.
func frozen(err error) bool {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCantOpen, sqlite.ResultReadOnly:
		return true
	}
	return false
}
