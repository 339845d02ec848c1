package local

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mounted reports whether a file is a mount of its own: it then belongs to
// another mount than its folder.
func mounted(path string) bool {
	file, known := mountOf(path, unix.AT_SYMLINK_NOFOLLOW)
	folder, also := mountOf(filepath.Dir(path), 0)
	if known && also {
		return file != folder
	}
	return isMountPoint(path)
}

func mountOf(path string, flags int) (id uint64, known bool) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, err == nil && st.Mask&unix.STATX_MNT_ID != 0
}

// isMountPoint asks the list of mounts, for kernels before 5.8.
func isMountPoint(path string) bool {
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	escaped := strings.NewReplacer(`\`, `\134`, " ", `\040`, "\t", `\011`, "\n", `\012`).Replace(path)
	for line := range strings.Lines(string(list)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == escaped {
			return true
		}
	}
	return false
}
