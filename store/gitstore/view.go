package gitstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// A view is the branch at one commit. It never changes; it reads from the cache
// what it has not looked at yet.
type view struct {
	commit
	objects *objects
	where   string // the branch, for messages
	state   state
	root    *folder
	known   *known // as of this view: when its revisions were first seen
}

// damaged names the file, and what to do.
func (v *view) damaged(path string, err error) error {
	if driver.Refusal(err) || errors.Is(err, errCache) {
		return err
	}
	return fmt.Errorf("%w: %s on %s: %w; take back whatever changed it (git revert does not help: the branch must lose the commit)",
		driver.ErrDamaged, clean(path), v.where, err)
}

// open reads the first parts of a view.
func (o *objects) open(id oid, where string) (*view, error) {
	c, err := o.commit(id, where)
	if err != nil {
		return nil, err
	}
	v := &view{commit: c, objects: o, where: where}
	if v.root, err = o.tree(c.tree); err != nil {
		return nil, v.damaged("the top folder", err)
	}
	for _, e := range v.root.list {
		_, ours := kindOf(e.name)
		if file := e.name == stateFile || e.name == readmeFile; file == e.dir || !file && !ours {
			return nil, v.damaged(e.name, errForm)
		}
	}
	e, ok := v.root.find(stateFile)
	if !ok {
		return nil, v.damaged(stateFile, errors.New("is missing"))
	}
	body, err := o.get(e.id, "blob", maxState)
	if err == nil {
		v.state, err = decodeState(body)
	}
	if err == nil && v.state.rev != c.rev {
		err = errors.New("is not of the newest commit")
	}
	if errors.Is(err, driver.ErrNewer) {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if err != nil {
		return nil, v.damaged(stateFile, err)
	}
	return v, nil
}

// A location is where a record is, or would be.
type location struct {
	kind *folder // nil: there is no record of that kind
	fan  bool    // kind has folders
	leaf *folder // where the file is; nil: no such folder
	file entry
	ok   bool
}

func (v *view) locate(key string) (s location, err error) {
	name := folderName(driver.Kind(key))
	e, ok := v.root.find(name)
	if !ok {
		return s, nil
	}
	if s.kind, s.fan, err = v.kind(e); err != nil {
		return s, err
	}
	s.leaf = s.kind
	if s.fan {
		sub, ok := s.kind.find(shard(key))
		if !ok {
			s.leaf = nil
			return s, nil
		}
		if s.leaf, err = v.leaf(name+"/"+sub.name, sub.id); err != nil {
			return s, err
		}
	}
	s.file, s.ok = s.leaf.find(fileName(key))
	return s, nil
}

// kind reads the folder of a kind: files, or folders of files.
func (v *view) kind(e entry) (f *folder, fan bool, err error) {
	if f, err = v.objects.tree(e.id); err != nil {
		return nil, false, v.damaged(e.name, err)
	}
	if len(f.list) == 0 || !f.list[0].dir {
		return f, false, v.onlyFiles(e.name, f)
	}
	for _, sub := range f.list {
		if _, err := strconv.ParseUint(sub.name, 16, 8); !sub.dir || err != nil || len(sub.name) != 2 {
			return nil, false, v.damaged(e.name+"/"+sub.name, errForm)
		}
	}
	return f, true, nil
}

func (v *view) leaf(path string, id oid) (*folder, error) {
	f, err := v.objects.tree(id)
	if err != nil {
		return nil, v.damaged(path, err)
	}
	return f, v.onlyFiles(path, f)
}

func (v *view) onlyFiles(path string, f *folder) error {
	for _, e := range f.list {
		if e.dir || !strings.HasSuffix(e.name, extension) {
			return v.damaged(path+"/"+e.name, errForm)
		}
	}
	return nil
}

// lookup returns the record of a key, nil if there is none.
func (v *view) lookup(key string) (*record, error) {
	if driver.CheckKey(key) != nil {
		return nil, nil // such a record cannot be
	}
	s, err := v.locate(key)
	if err != nil || !s.ok {
		return nil, err
	}
	list := []item{{path: folderName(driver.Kind(key)) + "/" + s.file.name, id: s.file.id, key: key}}
	if err := v.fill(list); err != nil {
		return nil, err
	}
	return list[0].rec, nil
}

// revOf returns a record's revision, 0 if there is none.
func (v *view) revOf(key string) (int64, error) {
	r, err := v.lookup(key)
	if err != nil || r == nil {
		return 0, err
	}
	return r.rev, nil
}

// holds reports whether the guards do.
func (v *view) holds(guards []driver.Guard) (bool, error) {
	return holds(guards, v.state.kinds, v.revOf)
}

func holds(guards []driver.Guard, kinds map[string]int64, rev func(string) (int64, error)) (bool, error) {
	for _, g := range guards {
		if g.IsKind() {
			if kinds[g.Key] > g.Rev {
				return false, nil
			}
			continue
		}
		if now, err := rev(g.Key); err != nil || now != g.Rev {
			return false, err
		}
	}
	return true, nil
}

// An item is a file to be read.
type item struct {
	path string
	id   oid
	key  string // "": not known by its name
	rec  *record
}

// scan returns the files of a range, in the order of their keys.
func (v *view) scan(r driver.Range) ([]item, error) {
	var list []item
	for _, e := range v.root.list {
		kind, ours := kindOf(e.name)
		if !e.dir || !ours || kind != "" && !strings.HasPrefix(kind, r.Prefix) && !strings.HasPrefix(r.Prefix, kind) {
			continue
		}
		files, err := v.files(e)
		if err != nil {
			return nil, err
		}
		for i := range files {
			if kind != "" {
				var ok bool
				if files[i].key, ok = keyOf(kind, files[i].path[strings.LastIndexByte(files[i].path, '/')+1:]); !ok {
					return nil, v.damaged(files[i].path, errForm)
				}
			}
			if files[i].key == "" {
				if err := v.fill(files[i : i+1]); err != nil {
					return nil, err
				}
				files[i].key = files[i].rec.key
			}
		}
		list = append(list, slices.DeleteFunc(files, func(f item) bool { return !r.Selects(f.key) })...)
	}
	slices.SortFunc(list, func(a, b item) int { return cmp.Compare(a.key, b.key) })
	switch {
	case r.Limit > 0:
		list = list[:min(len(list), r.Limit)]
	case r.Limit < 0:
		list = list[max(0, len(list)+r.Limit):]
	}
	return list, v.fill(list)
}

// files lists what is in the folder of a kind.
func (v *view) files(e entry) ([]item, error) {
	f, fan, err := v.kind(e)
	if err != nil {
		return nil, err
	}
	leaves := []entry{e}
	if fan {
		leaves = f.list
	}
	var list []item
	for _, leaf := range leaves {
		path := e.name
		if fan {
			path += "/" + leaf.name
			if f, err = v.leaf(path, leaf.id); err != nil {
				return nil, err
			}
		}
		for _, file := range f.list {
			list = append(list, item{path: path + "/" + file.name, id: file.id})
		}
	}
	return list, nil
}

// fill reads the files, those that were not read before.
func (v *view) fill(list []item) error {
	o := v.objects
	var packed []*item
	for i := range list {
		it := &list[i]
		if it.rec != nil {
			continue
		}
		o.mu.Lock()
		it.rec = o.records[it.id]
		o.mu.Unlock()
		if it.rec != nil {
			if err := v.check(it); err != nil {
				return err
			}
			continue
		}
		body, err := o.loose(it.id, "blob", maxRecord)
		switch {
		case errors.Is(err, errHuge):
			return v.damaged(it.path, errHuge)
		case err != nil:
			packed = append(packed, it)
		default:
			if err := v.decode(it, body); err != nil {
				return err
			}
		}
	}
	if len(packed) == 0 {
		return nil
	}
	ids, at := make([]oid, len(packed)), 0
	for i, it := range packed {
		ids[i] = it.id
	}
	err := o.cat.get(ids, "blob", maxRecord, func(i int, body []byte) error {
		at = i + 1
		return v.decode(packed[i], body)
	})
	if errors.Is(err, errHuge) {
		return v.damaged(packed[at].path, errHuge)
	}
	return err
}

func (v *view) decode(it *item, body []byte) (err error) {
	if it.rec, err = decodeRecord(body); err != nil {
		return v.damaged(it.path, err)
	}
	o := v.objects
	o.mu.Lock()
	if len(o.records) > maxRecords {
		clear(o.records)
	}
	o.records[it.id] = it.rec
	o.mu.Unlock()
	return v.check(it)
}

// check compares a record with the place where it was found.
func (v *view) check(it *item) error {
	r := it.rec
	want := folderName(driver.Kind(r.key)) + "/"
	if strings.Count(it.path, "/") == 2 {
		want += shard(r.key) + "/"
	}
	name := it.path[strings.LastIndexByte(it.path, '/')+1:]
	if it.key != "" && it.key != r.key || fileName(r.key) != name || !strings.HasPrefix(it.path, want) && it.key == "" || r.rev > v.rev {
		return v.damaged(it.path, fmt.Errorf("holds %.60q at revision %d", r.key, r.rev))
	}
	return nil
}

// query answers a query by this view, with ages by the clock of this machine.
func (v *view) query(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	var found []item
	for i, key := range q.Keys {
		if i%64 == 0 && ctx.Err() != nil {
			return driver.Snapshot{}, ctx.Err()
		}
		r, err := v.lookup(key)
		if err != nil {
			return driver.Snapshot{}, err
		}
		if r != nil {
			found = append(found, item{rec: r})
		}
	}
	for _, r := range q.Ranges {
		list, err := v.scan(r)
		if err != nil {
			return driver.Snapshot{}, err
		}
		found = append(found, list...)
	}
	now := local.Clock()
	snap := driver.Snapshot{Rev: v.rev, Now: time.Unix(0, now.Wall).UTC(), Records: make([]driver.Record, len(found))}
	for i, it := range found {
		t := v.known.first(it.rec.rev, now)
		if w := it.rec.written.Add(maxSkew); w.Before(t) {
			t = w
		}
		snap.Records[i] = driver.Record{Key: it.rec.key, Rev: it.rec.rev, Time: t, Value: slices.Clone(it.rec.value)}
	}
	return snap, nil
}
