package host

import "golang.org/x/sys/unix"

// judge cuts the number to 32 bits: its Go type, and with it the sign, depends
// on the architecture.
func judge(st *unix.Statfs_t) (name string, safe bool) {
	return linuxFileSystem(uint32(st.Type))
}
