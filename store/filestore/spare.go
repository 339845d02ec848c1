package filestore

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"slices"
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

// A draft is the change of a record's file: its new content, in the folder of spare
// files, or its end.
type draft struct {
	folder, name string
	there        bool   // the record has a file
	content      []byte // nil: it loses it
	spare        string
}

// put writes r into the file of its key, unsynced. there: the file exists.
func (t *tree) put(r record, there bool) error {
	drafts, err := t.draft([]record{r}, map[string]bool{r.key: there})
	if err != nil {
		return err
	}
	return t.install(drafts)
}

// draft writes the files of records, unsynced, and leaves those in place alone. Of two
// records with one key the last one counts. there: who has a file.
func (t *tree) draft(records []record, there map[string]bool) ([]draft, error) {
	drafts := draftsOf(records, there)
	most := len(drafts)
	for most > 0 && drafts[most-1].content == nil {
		most--
	}
	had := t.spares
	t.spares = max(0, had-most)
	for i := range drafts[:most] {
		fault.Point("file.fill")
		d, number := &drafts[i], t.spares+i
		d.spare = strconv.Itoa(number)
		if t.quick.fill(t.s, d.spare, d.content, number >= had) {
			continue
		}
		if err := t.fill(d.spare, d.content); err != nil {
			return nil, t.s.explain(err, recordPath(d.folder, d.name))
		}
	}
	return drafts, nil
}

// draftsOf puts those first that change places with a file: the numbers of the spare
// files then have no gap. Files that go become spare ones last, when no draft is left
// there.
func draftsOf(records []record, there map[string]bool) []draft {
	last := make(map[string]int, len(records))
	for i, r := range records {
		last[r.key] = i
	}
	drafts := make([]draft, 0, len(last))
	for i, r := range records {
		if last[r.key] != i {
			continue
		}
		d := draft{there: there[r.key]}
		d.folder, d.name = file(r.key)
		if r.value != nil {
			d.content = encodeRecord(r)
		}
		drafts = append(drafts, d)
	}
	slices.SortStableFunc(drafts, func(a, b draft) int { return cmp.Compare(a.turn(), b.turn()) })
	return drafts
}

func (d draft) turn() int {
	switch {
	case d.content == nil:
		return 2
	case d.there:
		return 0
	}
	return 1
}

// install moves drafts into place.
func (t *tree) install(drafts []draft) error {
	for _, d := range drafts {
		var swapped bool
		var err error
		if d.content == nil {
			err = t.remove(d.folder, d.name)
		} else {
			fault.Point("file.rename")
			swapped, err = t.place(d.spare, d.folder, d.name, d.there)
		}
		if swapped {
			t.spares++
		}
		if err != nil {
			return t.s.explain(err, recordPath(d.folder, d.name))
		}
	}
	return nil
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
