package sqlitestore

import "os"

// readable and writable ask without opening: see local.File.
func readable(string) bool { return true }

func writable(path string) bool {
	fi, err := os.Lstat(path)
	return err != nil || fi.Mode().Perm()&0o200 != 0
}
