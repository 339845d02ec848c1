package filestore

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A stamp shows that a folder has the entries that it had: the kernel changes the
// time of a folder with every entry that comes, goes or is replaced, and nobody
// can set that time. Opening and checking everything for each call anew took more
// system calls than the work itself.
type stamp struct {
	dev, ino uint64
	changed  unix.Timespec
}

// tick is more than the precision of these times, coarseTick on file systems that
// keep whole seconds, as ext4 does with small inodes, or only even ones. A change
// that is younger may be followed by another one at the same time.
const (
	tick       = 100 * time.Millisecond
	coarseTick = 3 * time.Second
)

// settled reports whether no further change can have that time.
func settled(changed unix.Timespec, now time.Time) bool {
	least := tick
	if changed.Nsec == 0 {
		least = coarseTick
	}
	return now.Sub(time.Unix(changed.Unix())) >= least
}

// look returns the stamp of a folder, the zero stamp if it shows nothing.
func look(parent int, name string) stamp {
	var st unix.Stat_t
	if unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return stamp{}
	}
	if !settled(st.Ctim, time.Now()) {
		return stamp{}
	}
	return stamp{dev: st.Dev, ino: st.Ino, changed: st.Ctim}
}

// stamp looks at the store's own folder.
func (s *Store) stamp() stamp { return look(unix.AT_FDCWD, s.dir) }

// folders are open folders, by their paths in the store. Those of one stamp of
// "records" serve many calls; they are closed when the last of them has ended.
type folders struct {
	records stamp
	users   int // protected by Store.mu
	stale   bool

	mu  sync.Mutex
	fds map[string]int // -1: there is none
}

// useFolders returns the open folders for one call. The caller has read the state
// before: a folder that a commit in that state made is there.
func (s *Store) useFolders() *folders {
	now := look(s.place.fd, recordsDir)
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.folders
	if f == nil || f.records != now || now == (stamp{}) {
		s.leaveFolders()
		f = &folders{records: now, fds: make(map[string]int)}
		s.folders = f
	}
	f.users++
	return f
}

// leaveFolders makes the next call open them again. The caller has s.mu.
func (s *Store) leaveFolders() {
	if f := s.folders; f != nil {
		f.stale = true
		f.closeUnused()
		s.folders = nil
	}
}

// dropFolders ends the use by one call.
func (s *Store) dropFolders(f *folders) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.users--
	f.closeUnused()
}

func (f *folders) closeUnused() {
	if !f.stale || f.users > 0 {
		return
	}
	for _, fd := range f.fds {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	f.fds = nil
}

// open opens a folder in another; -1: there is none. ok is false if only the long
// way can tell.
func (f *folders) open(parent int, name, path string) (fd int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fd, known := f.fds[path]; known {
		return fd, true
	}
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err == unix.ENOENT:
		if path != recordsDir && path != spareDir {
			f.fds[path] = -1
		}
		return -1, true
	case err != nil:
		return 0, false
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || !ours(st) || st.Mode&0o022 != 0 {
		_ = unix.Close(fd)
		return 0, false
	}
	f.fds[path] = fd
	return fd, true
}

// forget makes sure that a folder that was not there is looked for again.
func (f *folders) forget(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fds[path] < 0 {
		delete(f.fds, path)
	}
}

var self = os.Geteuid()

func ours(st unix.Stat_t) bool { return int(st.Uid) == self }
