package host

import (
	"errors"
	"fmt"
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

// WriteFile writes a file so that nobody ever sees half of it, and makes the
// folders around it.
func WriteFile(file string, data []byte, mode os.FileMode) error {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	var tmp *os.File
	if err == nil {
		tmp, err = os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*")
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return &DeniedError{file, err}
	}
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}
