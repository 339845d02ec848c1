//go:build !linux

package host

import (
	"io/fs"
	"os"
)

// A FileID distinguishes a file from every other one that exists.
type FileID struct{ info fs.FileInfo }

// IDOf returns the id of a file whose info was read before.
func IDOf(fi fs.FileInfo) FileID { return FileID{fi} }

// LookID returns the id of the file at path; it follows no link.
func LookID(path string) (FileID, error) {
	fi, err := os.Lstat(path)
	return FileID{fi}, err
}

// Is reports whether both are of one file.
func (id FileID) Is(other FileID) bool {
	return id.info != nil && other.info != nil && os.SameFile(id.info, other.info)
}
