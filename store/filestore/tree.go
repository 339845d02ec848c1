package filestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/tasklock/tasklock/fault"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/local"
)

// A tree is the folder of records for the time of one call. Handles on folders
// are not kept longer: a folder that was removed and made again would be two,
// and we would look into the one that nobody else sees.
type tree struct {
	s       *Store
	records *os.Root
	mu      sync.Mutex
	kinds   map[string]*os.Root // by folder name; nil: there is none
}

// newFile is how a record file begins its life. No encoded name has a dot in
// front.
const newFile = ".new"

func (s *Store) tree() *tree { return &tree{s: s, kinds: make(map[string]*os.Root)} }

func (t *tree) close() {
	for _, k := range t.kinds {
		if k != nil {
			_ = k.Close()
		}
	}
	if t.records != nil {
		_ = t.records.Close()
	}
}

// file returns the folder and the name of a key's file.
func file(key string) (folder, name string) {
	kind := driver.Kind(key)
	return encodeName(kind[:len(kind)-1]), encodeName(key[len(kind):])
}

// fileOf is the path of a key's file in the store.
func fileOf(key string) string {
	folder, name := file(key)
	return recordsDir + "/" + folder + "/" + name
}

// kind opens the folder of a kind, nil if there is none and none is to be made.
func (t *tree) kind(folder string, create bool) (*os.Root, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k, ok := t.kinds[folder]; ok && (k != nil || !create) {
		return k, nil
	}
	if err := t.open(create); err != nil || t.records == nil {
		return nil, err
	}
	k, err := t.enter(t.records, folder, recordsDir+"/"+folder, create)
	if err == nil {
		t.kinds[folder] = k
	}
	return k, err
}

// open opens the folder of all kinds, if there is one.
func (t *tree) open(create bool) (err error) {
	if t.records == nil {
		t.records, err = t.enter(t.s.root, recordsDir, recordsDir, create)
	}
	return err
}

func (t *tree) enter(parent *os.Root, name, path string, create bool) (*os.Root, error) {
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
	return r, t.s.explain(err, path)
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
	if len(data) == 0 && fault.Bug("empty_is_free") {
		return record{}, false, nil
	}
	r, err := decodeRecord(data)
	return r, true, t.s.explain(err, recordsDir+"/"+folder+"/"+name)
}

// content returns what is in a file, nil when there is none.
func (t *tree) content(folder, name string) ([]byte, error) {
	kind, err := t.kind(folder, false)
	if err != nil || kind == nil {
		return nil, err
	}
	path := recordsDir + "/" + folder + "/" + name
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
	buf := make([]byte, fi.Size()+512) // one more read shows the end, if it was replaced since
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

// write puts the record's file in its place, unsynced.
func (t *tree) write(r record) error {
	folder, name := file(r.key)
	path := recordsDir + "/" + folder + "/" + name
	kind, err := t.kind(folder, true)
	if err != nil {
		return err
	}
	fault.Point("file.create")
	f, err := kind.OpenFile(newFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // left by a crash
		if err := kind.Remove(newFile); err != nil {
			return t.s.explain(err, path)
		}
		f, err = kind.OpenFile(newFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return t.s.explain(err, path)
	}
	_, err = f.Write(encodeRecord(r))
	if err = errors.Join(err, f.Close()); err != nil {
		return t.s.explain(err, path)
	}
	fault.Point("file.rename")
	return t.s.explain(kind.Rename(newFile, name), path)
}

// remove deletes the record's file.
func (t *tree) remove(key string) error {
	folder, name := file(key)
	kind, err := t.kind(folder, false)
	if err != nil || kind == nil {
		return err
	}
	fault.Point("file.remove")
	if err := kind.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t.s.explain(err, recordsDir+"/"+folder+"/"+name)
	}
	return nil
}

// put makes the file of r's key what r says.
func (t *tree) put(r record) error {
	if r.value == nil {
		return t.remove(r.key)
	}
	return t.write(r)
}

// folders lists the folders of all kinds.
func (t *tree) folders() ([]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.open(false); err != nil || t.records == nil {
		return nil, err
	}
	return names(t.records, func(err error) error { return t.s.explain(err, recordsDir) })
}

// files lists the files of a folder.
func (t *tree) files(folder string) ([]string, error) {
	kind, err := t.kind(folder, false)
	if err != nil || kind == nil {
		return nil, err
	}
	return names(kind, func(err error) error { return t.s.explain(err, recordsDir+"/"+folder) })
}

func names(r *os.Root, explain func(error) error) ([]string, error) {
	d, err := r.Open(".")
	if err != nil {
		return nil, explain(err)
	}
	defer func() { _ = d.Close() }()
	list, err := d.Readdirnames(-1)
	return list, explain(err)
}

// syncDir makes the entries of a folder survive loss of power.
func syncDir(r *os.Root, name string) error {
	d, err := r.Open(name)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = nil // Windows: folders cannot be synced, and need not
	}
	return errors.Join(err, d.Close())
}

// syncFile puts the content of a record's file on the disk. There may be none.
func (t *tree) syncFile(key string) error {
	folder, name := file(key)
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
	return t.s.explain(err, recordsDir+"/"+folder+"/"+name)
}

func (t *tree) syncFolder(folder string) error {
	kind, err := t.kind(folder, false)
	if err != nil || kind == nil {
		return err
	}
	return t.s.explain(syncDir(kind, "."), recordsDir+"/"+folder)
}
