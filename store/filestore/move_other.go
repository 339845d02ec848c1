//go:build !linux

package filestore

import "errors"

// move renames a file from one folder to another.
func (t *tree) move(from *folder, name string, to *folder, newName string) error {
	return t.s.root.Rename(from.path+"/"+name, to.path+"/"+newName)
}

// swap is for systems where two files can change their places.
func (t *tree) swap(*folder, string, *folder, string) error { return errors.ErrUnsupported }

// A handle is for Linux.
type handle struct{}

func (handle) open(string) error { return nil }
func (handle) close()            {}
