package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A DeniedError says that this user may not write a file.
type DeniedError struct {
	File string
	Err  error
}

func (e *DeniedError) Error() string { return fmt.Sprintf("%s cannot be written: %v", e.File, e.Err) }

// WriteFile is ReplaceFile, and makes the folders around the file.
func WriteFile(file string, data []byte, mode os.FileMode) error {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = ReplaceFile(file, mode, func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		})
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return &DeniedError{file, err}
	}
	return err
}

// ReplaceFile writes a file so that it is the old or the new one at every instant,
// also through a loss of power.
func ReplaceFile(file string, mode os.FileMode, write func(io.Writer) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if err = write(tmp); err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), file); err == nil {
		_ = SyncDir(filepath.Dir(file)) // the change is visible already
	}
	return err
}

// SyncDir makes the names in a folder last through a loss of power.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // we may put names there and not list them
	}
	if err != nil {
		return err
	}
	return SyncFolder(d)
}

// SyncFolder makes the names in an open folder last, and closes it.
func SyncFolder(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = nil // Windows: folders cannot be synced, and need not
	}
	return errors.Join(err, d.Close())
}
