package host

import (
	"errors"
	"io/fs"
	"os"
)

// SyncDir makes the names in a folder last through a loss of power.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // we may put names there and not list them
	}
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = nil // Windows: folders cannot be synced, and need not
	}
	return errors.Join(err, d.Close())
}
