package filestore

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// startSyncData has the disk begin with what was written, before [syncData] waits for
// it. Only that reports what fails.
func startSyncData(f *os.File, pos int64, size int) {
	_ = unix.SyncFileRange(int(f.Fd()), pos, int64(size), unix.SYNC_FILE_RANGE_WRITE)
}

// syncData makes what was written to f survive loss of power. Blocks that are
// overwritten in place need nothing else.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// mount names f's mount so that no later mount has the same name. Kernels before
// 6.8 have no such name.
func mount(f *os.File) string {
	var st unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID_UNIQUE, &st)
	if err != nil || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return ""
	}
	return strconv.FormatUint(st.Mnt_id, 36)
}
