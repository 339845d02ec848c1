package filestore

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// quick reads, writes and moves record files with as few system calls as
// possible: most of the time of a commit goes into them. It leaves unusual cases
// and failures to the long way, which explains them.
type quick struct {
	mu      sync.Mutex
	folders *folders
}

// read returns the content of a file, nil if there is none. ok is false if the
// long way is needed.
func (q *quick) read(s *Store, folder, name string) (data []byte, ok bool) {
	kind, ok := q.kind(s, folder)
	if !ok || kind < 0 {
		return nil, ok
	}
	fd, err := unix.Openat(kind, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err == unix.ENOENT
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || !ours(st) || st.Size > maxRecordFile {
		return nil, false
	}
	data = make([]byte, st.Size+1) // one more, to see the end
	n, err := unix.Read(fd, data)
	if err != nil || int64(n) != st.Size {
		return nil, false
	}
	return data[:n], true
}

// fill writes content into a spare file. fresh: there is probably none yet.
func (q *quick) fill(s *Store, name string, content []byte, fresh bool) (ok bool) {
	spare, ok := q.spare(s)
	if !ok || spare < 0 {
		return false
	}
	fd, err := openSpare(spare, name, fresh)
	if err == unix.ENOENT || err == unix.EEXIST {
		fresh = !fresh
		fd, err = openSpare(spare, name, fresh)
	}
	if err != nil {
		return false
	}
	defer func() { ok = unix.Close(fd) == nil && ok }()
	var st unix.Stat_t
	if !fresh && (unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || !ours(st) || st.Nlink != 1) {
		return false
	}
	if n, err := unix.Write(fd, content); err != nil || n != len(content) {
		return false
	}
	return st.Size <= int64(len(content)) || unix.Ftruncate(fd, int64(len(content))) == nil
}

func openSpare(spare int, name string, create bool) (fd int, err error) {
	flag := unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	if create {
		flag |= unix.O_CREAT | unix.O_EXCL
	}
	return unix.Openat(spare, name, flag, 0o600)
}

// startSync begins to write the content of a record's file to the disk. Only a sync
// reports what fails.
func (q *quick) startSync(s *Store, key string) {
	folder, name := file(key)
	kind, ok := q.kind(s, folder)
	if !ok || kind < 0 {
		return
	}
	fd, err := unix.Openat(kind, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	_ = unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE)
	_ = unix.Close(fd)
}

// sync puts the content of a file on the disk. There may be none. The long way
// cannot repeat a failure: the kernel may report it only once.
func (q *quick) sync(s *Store, folder, name string) (done bool, err error) {
	kind, ok := q.kind(s, folder)
	if !ok || kind < 0 {
		return ok, nil
	}
	fd, err := unix.Openat(kind, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err == unix.ENOENT, nil
	}
	err = os.NewSyscallError("fsync", unix.Fsync(fd))
	return true, errors.Join(err, unix.Close(fd))
}

// place moves a spare file to the place of a record's. If there is a file, the
// two change places.
func (q *quick) place(s *Store, spare, folder, name string, there bool) (ok bool) {
	from, to, ok := q.both(s, folder)
	how := uint(0)
	if there {
		how = unix.RENAME_EXCHANGE
	}
	return ok && unix.Renameat2(from, spare, to, name, how) == nil
}

// take turns a record's file into a spare one.
func (q *quick) take(s *Store, folder, name, spare string) (ok bool) {
	to, from, ok := q.both(s, folder)
	return ok && unix.Renameat2(from, name, to, spare, 0) == nil
}

// both opens the folder of spare files and that of a kind, if they exist.
func (q *quick) both(s *Store, folder string) (spare, kind int, ok bool) {
	if spare, ok = q.spare(s); !ok || spare < 0 {
		return 0, 0, false
	}
	kind, ok = q.kind(s, folder)
	return spare, kind, ok && kind >= 0
}

func (q *quick) spare(s *Store) (fd int, ok bool) { return q.dir(s, s.place.fd, spareDir, spareDir) }

func (q *quick) kind(s *Store, folder string) (fd int, ok bool) {
	records, ok := q.dir(s, s.place.fd, recordsDir, recordsDir)
	if !ok || records < 0 {
		return records, ok
	}
	return q.dir(s, records, folder, recordsDir+"/"+folder)
}

func (q *quick) dir(s *Store, parent int, name, path string) (fd int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.folders == nil {
		q.folders = s.useFolders()
	}
	return q.folders.open(parent, name, path)
}

// made says that a folder may be there now.
func (q *quick) made(path string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.folders != nil {
		q.folders.forget(path)
	}
}

func (q *quick) close(s *Store) {
	if q.folders != nil {
		s.dropFolders(q.folders)
		q.folders = nil
	}
}
