package filestore

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/local"
)

// Record files are written in the folder "spare" and moved into place when
// they are complete; replaced and deleted files go back there for reuse. Making
// and unlinking a file for every write would be simple and slow: ext4 does not
// reuse an inode for some seconds after it was freed, and walks over all of
// those for every new file (a third of a millisecond after a few thousand).
//
// The files are named 0, 1, 2, …; the state says how many there are. That is a
// hint: a number too small leaves some unused, one too large makes new ones.
const (
	spareDir  = "spare"
	maxSpares = 256
)

// put writes r into the file of its key, unsynced. there: the file exists.
func (t *tree) put(r record, there bool) error {
	folder, name := file(r.key)
	if r.value == nil {
		return t.s.explain(t.remove(folder, name), recordPath(folder, name))
	}
	return t.s.explain(t.write(folder, name, encodeRecord(r), there), recordPath(folder, name))
}

func (t *tree) write(folder, name string, content []byte, there bool) error {
	fault.Point("file.fill")
	t.spares = max(0, t.spares-1)
	spare := strconv.Itoa(t.spares)
	if !t.quick.fill(t.s, spare, content) {
		if err := t.fill(spare, content); err != nil {
			return err
		}
	}
	fault.Point("file.rename")
	swapped, err := t.place(spare, folder, name, there)
	if swapped {
		t.spares++
	}
	return err
}

// place moves a spare file to its place. A file that was there may become the
// spare one.
func (t *tree) place(spare, folder, name string, there bool) (swapped bool, err error) {
	if t.quick.place(t.s, spare, folder, name, there) {
		return there, nil
	}
	kind, err := t.kind(folder, true)
	if err == nil {
		err = t.openSpare()
	}
	if err != nil {
		return false, err
	}
	if there && t.swap(t.spare, spare, kind, name) == nil {
		return true, nil
	}
	return false, t.move(t.spare, spare, kind, name)
}

func (t *tree) remove(folder, name string) error {
	fault.Point("file.remove")
	if t.spares < maxSpares && t.quick.take(t.s, folder, name, strconv.Itoa(t.spares)) {
		t.spares++
		return nil
	}
	kind, err := t.kind(folder, false)
	if err != nil || kind == nil {
		return err
	}
	if t.spares >= maxSpares {
		err = kind.Remove(name)
	} else if err = t.openSpare(); err == nil {
		if err = t.move(kind, name, t.spare, strconv.Itoa(t.spares)); err == nil {
			t.spares++
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *tree) openSpare() (err error) {
	if t.spare == nil {
		t.spare, err = t.enter(t.s.root, spareDir, spareDir, true)
	}
	return err
}

// fill writes content into a spare file, which is made if there is none.
func (t *tree) fill(name string, content []byte) error {
	if err := t.openSpare(); err != nil {
		return err
	}
	flag, size := os.O_WRONLY, int64(0)
	fi, err := t.spare.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		flag |= os.O_CREATE | os.O_EXCL
	case err != nil:
		return err
	default:
		if err := local.CheckFile(t.s.path(spareDir+"/"+name), fi); err != nil {
			return err
		}
		if size = fi.Size(); local.SingleName(name, fi) != nil { // someone keeps its old content
			if err := t.spare.Remove(name); err != nil {
				return err
			}
			flag |= os.O_CREATE | os.O_EXCL
		}
	}
	f, err := t.spare.OpenFile(name, flag, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil && size > int64(len(content)) {
		err = f.Truncate(int64(len(content)))
	}
	return errors.Join(err, f.Close())
}
