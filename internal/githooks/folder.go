package githooks

import (
	"os"
	"path/filepath"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/repo"
)

// Folder makes a folder of hooks with only the guard, in the user's state folder,
// and returns it; empty: it cannot be made. base must exist.
func Folder(state, base string) string {
	if state == "" || !repo.IsDir(base) {
		return ""
	}
	dir := filepath.Join(state, "hooks")
	if os.MkdirAll(dir, 0o700) != nil {
		return ""
	}
	for _, hook := range Names {
		file := filepath.Join(dir, hook)
		script := "#!/bin/sh\nexec tasklock guard run " + hook + " \"$@\"\n"
		if is, err := os.ReadFile(file); err == nil && string(is) == script && executable(file) {
			continue
		}
		if err := host.WriteFile(file, []byte(script), 0o700); err != nil {
			return ""
		}
	}
	return dir
}
