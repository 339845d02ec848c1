package filestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// Remedies for damage, at the end of a message.
const (
	mendRecord  = "restore it from a backup, or remove it if you know that nobody holds what it says"
	mendJournal = "restore the folder from a backup"
)

// explain turns a trouble with a file of the store into an answer of the
// contract, if there is one, and names the file.
func (s *Store) explain(err error, name string) error {
	if err == nil || err == errNoState || driver.Refusal(err) || errors.Is(err, driver.ErrConflict) || errors.Is(err, context.Canceled) {
		return err
	}
	path := s.path(name)
	var newer newerFormat
	switch {
	case errors.As(err, &newer):
		return driver.Newer(path, int(newer), format)
	case errors.Is(err, errEmpty), errors.Is(err, errNotOurs):
		return fmt.Errorf("%w: %s %w; %s", driver.ErrDamaged, path, err, mendRecord)
	case errors.Is(err, errNoJournal), errors.Is(err, errNoBase), errors.Is(err, errMiddle),
		errors.Is(err, errBadEntry), errors.Is(err, errBadGeneration), errors.Is(err, errLost):
		return fmt.Errorf("%w: %s %w; %s", driver.ErrDamaged, path, err, mendJournal)
	case host.NoSpace(err):
		return fmt.Errorf("disk full at %s: %w", path, err)
	case errors.Is(local.Denied(err), driver.ErrDenied):
		return fmt.Errorf("%s: %w", path, local.Denied(err))
	}
	return fmt.Errorf("%s: %w", path, err)
}

// foreign refuses a file whose name cannot be ours.
func (s *Store) foreign(name string) error {
	return fmt.Errorf("%w: %s is not a file of ours; move it away", driver.ErrDamaged, s.path(name))
}
