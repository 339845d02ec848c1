package host

import "golang.org/x/sys/unix"

func judge(st *unix.Statfs_t) (name string, safe bool) {
	name = unix.ByteSliceToString(st.Fstypename[:])
	return name, darwinFileSystem(name, st.Flags&unix.MNT_LOCAL != 0)
}
