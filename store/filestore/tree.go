package filestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// A tree is the folders of the store for the time of one call. Handles on them
// are not kept longer: if somebody removed a folder and made it again, we would
// look into the one that nobody else sees.
type tree struct {
	s      *Store
	spares int // see spare.go

	mu      sync.Mutex
	records *folder
	spare   *folder
	kinds   map[string]*folder // by name; nil: there is none
	quick   quick
}

// A folder is an open folder.
type folder struct {
	*os.Root
	path string // in the store
	dir  handle // the same, for system calls that os.Root does not have
}

func (s *Store) tree() *tree { return &tree{s: s, kinds: make(map[string]*folder)} }

func (t *tree) close() {
	t.records.close()
	t.spare.close()
	for _, k := range t.kinds {
		k.close()
	}
	t.quick.close(t.s)
}

func (f *folder) close() {
	if f == nil {
		return
	}
	_ = f.Root.Close()
	f.dir.close()
}

// file returns the folder and the name of a key's file.
func file(key string) (folder, name string) {
	kind := driver.Kind(key)
	return encodeName(kind[:len(kind)-1]), encodeName(key[len(kind):])
}

// fileOf is the path of a key's file in the store.
func fileOf(key string) string {
	folder, name := file(key)
	return recordPath(folder, name)
}

func recordPath(folder, name string) string { return recordsDir + "/" + folder + "/" + name }

// kind opens the folder of a kind, nil if there is none and create is not set.
func (t *tree) kind(name string, create bool) (*folder, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, ok := t.kinds[name]; ok && (k != nil || !create) {
		return k, nil
	}
	if err := t.openRecords(create); err != nil || t.records == nil {
		return nil, err
	}
	k, err := t.enter(t.records.Root, name, recordsDir+"/"+name, create)
	if err == nil {
		t.kinds[name] = k
		t.quick.made(recordsDir + "/" + name)
	}
	return k, err
}

// openRecords opens the folder of all kinds, if there is one.
func (t *tree) openRecords(create bool) (err error) {
	if t.records == nil {
		t.records, err = t.enter(t.s.root, recordsDir, recordsDir, create)
	}
	return err
}

func (t *tree) enter(parent *os.Root, name, path string, create bool) (*folder, error) {
	fi, err := parent.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return nil, nil
		}
		if err := parent.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, t.s.explain(err, path)
		}
		fi, err = parent.Lstat(name)
	}
	if err != nil {
		return nil, t.s.explain(err, path)
	}
	if err := local.CheckDir(t.s.path(path), fi); err != nil {
		return nil, err
	}
	r, err := parent.OpenRoot(name)
	if err != nil {
		return nil, t.s.explain(err, path)
	}
	return &folder{Root: r, path: path}, nil
}

// read returns the record of key; ok is false when there is none.
func (t *tree) read(key string) (r record, ok bool, err error) {
	folder, name := file(key)
	r, ok, err = t.readFile(folder, name)
	if err == nil && ok && r.key != key {
		err = fmt.Errorf("%w: %s holds the record %q; %s", driver.ErrDamaged, t.s.path(fileOf(key)), r.key, mendRecord)
	}
	return r, ok, err
}

func (t *tree) readFile(folder, name string) (record, bool, error) {
	data, err := t.content(folder, name)
	if err != nil || data == nil {
		return record{}, false, err
	}
	r, err := decodeRecord(data)
	return r, true, t.s.explain(err, recordPath(folder, name))
}

// content returns the content of a file, nil when there is none.
func (t *tree) content(folder, name string) ([]byte, error) {
	if data, ok := t.quick.read(t.s, folder, name); ok {
		return data, nil
	}
	kind, err := t.kind(folder, false)
	if err != nil || kind == nil {
		return nil, err
	}
	path := recordPath(folder, name)
	fi, err := kind.Lstat(name)
	if err == nil {
		err = local.CheckFile(t.s.path(path), fi)
	}
	if err == nil && fi.Size() > maxRecordFile {
		err = errNotOurs
	}
	var f *os.File
	if err == nil {
		f, err = kind.OpenFile(name, os.O_RDONLY, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, t.s.explain(err, path)
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, fi.Size()+512) // more, to see the end, and if it was replaced since
	n, err := io.ReadFull(f, buf)
	switch {
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return buf[:n:n], nil
	case err != nil:
		return nil, t.s.explain(err, path)
	}
	rest, err := io.ReadAll(io.LimitReader(f, maxRecordFile))
	return append(buf, rest...), t.s.explain(err, path)
}

// folders lists the folders of all kinds.
func (t *tree) folders() ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.openRecords(false); err != nil || t.records == nil {
		return nil, err
	}
	return t.names(t.records)
}

// files lists the files of a folder.
func (t *tree) files(folder string) ([]string, error) {
	kind, err := t.kind(folder, false)
	if err != nil || kind == nil {
		return nil, err
	}
	return t.names(kind)
}

func (t *tree) names(f *folder) ([]string, error) {
	d, err := f.Open(".")
	if err != nil {
		return nil, t.s.explain(err, f.path)
	}
	defer func() { _ = d.Close() }()
	list, err := d.Readdirnames(-1)
	return list, t.s.explain(err, f.path)
}

// startSync has the kernel write the content of a record's file to the disk, without
// waiting for it. If all files are under way, syncing them takes half as long: the
// first sync finds the work of the others done.
func (t *tree) startSync(key string) { t.quick.startSync(t.s, key) }

// syncFile puts the content of a record's file on the disk. There may be none.
func (t *tree) syncFile(key string) error {
	folder, name := file(key)
	if done, err := t.quick.sync(t.s, folder, name); done {
		return t.s.explain(err, recordPath(folder, name))
	}
	kind, err := t.kind(folder, false)
	if err != nil || kind == nil {
		return err
	}
	f, err := kind.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	return t.s.explain(err, recordPath(folder, name))
}

// syncFolder puts the names in the folder of a kind on the disk.
func (t *tree) syncFolder(name string) error {
	kind, err := t.kind(name, false)
	if err != nil || kind == nil {
		return err
	}
	return t.s.explain(syncDir(kind.Root), kind.path)
}

// syncDir makes the entries of a folder survive loss of power.
func syncDir(r *os.Root) error {
	d, err := r.Open(".")
	if err != nil {
		return err
	}
	return host.SyncFolder(d)
}
