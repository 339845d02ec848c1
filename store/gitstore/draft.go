package gitstore

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/store/driver"
)

// maxFlat is how many records of a kind are in one folder. Every change of a file
// writes its whole folder, so a larger kind has 256 folders.
const maxFlat = 1000

// A draft is the branch as it will be: a view and the batches decided on top
// of it, which become one commit.
type draft struct {
	base    *view
	state   state
	written time.Time
	changes map[string]*record // nil: deleted
	notes   []string
}

func (v *view) draft() *draft {
	return &draft{base: v, state: v.state.clone(), written: time.Now().UTC(), changes: map[string]*record{}}
}

// add decides a batch and, if its guards hold, applies it.
func (d *draft) add(b driver.Batch) (rev int64, ok bool, err error) {
	ok, err = holds(b.Guards, d.state.kinds, d.revOf)
	if err != nil || !ok {
		return 0, false, err
	}
	fault.Point("git.guards")
	rev = max(d.state.rev+1, b.Floor)
	for _, w := range b.Writes {
		var r *record
		if w.Value != nil {
			r = &record{key: w.Key, rev: rev, written: d.written, by: hostName, value: w.Value}
		}
		d.changes[w.Key] = r
		d.state.wrote(w.Key, rev)
	}
	d.notes = append(d.notes, b.Note)
	return rev, true, nil
}

func (d *draft) revOf(key string) (int64, error) {
	if r, ok := d.changes[key]; ok {
		if r == nil {
			return 0, nil
		}
		return r.rev, nil
	}
	return d.base.revOf(key)
}

// hostName is the name of this machine, cleaned for display.
var hostName = func() string {
	name, err := os.Hostname()
	if err != nil || len(name) > 255 {
		return "unknown"
	}
	return clean(name)
}()

// write makes the objects of the commit. alone cuts off the history before it.
func (d *draft) write(ctx context.Context, alone bool) (c commit, err error) {
	if len(d.changes) < manyObjects {
		return d.build(alone)
	}
	err = d.base.objects.inBulk(ctx, func() error {
		c, err = d.build(alone)
		return err
	})
	return c, err
}

func (d *draft) build(alone bool) (commit, error) {
	o := d.base.objects
	root := d.base.root.entries()
	for kind, keys := range d.byKind() {
		fault.Point("git.tree")
		e, err := d.writeKind(keys)
		if err != nil {
			return commit{}, err
		}
		put(root, folderName(kind), e)
	}
	file, err := o.put("blob", d.state.encode())
	if err != nil {
		return commit{}, err
	}
	root[stateFile] = entry{name: stateFile, id: file}
	c := commit{rev: d.state.rev, history: d.base.history + 1, parent: d.base.id}
	if alone {
		c.parent, c.history = "", 1
	}
	top, err := putFolder(o, root)
	if err != nil {
		return commit{}, err
	}
	c.tree = top.id
	return o.putCommit(c, d.written, message(d.notes))
}

func (d *draft) byKind() map[string][]string {
	kinds := map[string][]string{}
	for key := range d.changes {
		kind := driver.Kind(key)
		kinds[kind] = append(kinds[kind], key)
	}
	return kinds
}

// writeKind makes the folder of a kind with the changes of these keys. An
// entry without id means that the folder is empty.
func (d *draft) writeKind(keys []string) (entry, error) {
	at, err := d.base.locate(keys[0])
	if err != nil {
		return entry{}, err
	}
	if at.fan {
		return d.writeShards(at.kind, keys)
	}
	flat := at.kind.entries()
	if err := d.change(flat, keys); err != nil {
		return entry{}, err
	}
	if len(flat) > maxFlat {
		return d.spread(driver.Kind(keys[0]), flat, keys)
	}
	return putFolder(d.base.objects, flat)
}

func (d *draft) writeShards(kind *folder, keys []string) (entry, error) {
	shards := map[string][]string{}
	for _, key := range keys {
		shards[shard(key)] = append(shards[shard(key)], key)
	}
	top, leaves := kind.entries(), map[string]map[string]entry{}
	for name, keys := range shards {
		var f *folder
		if e, ok := top[name]; ok {
			var err error
			if f, err = d.base.leaf(name, e.id); err != nil {
				return entry{}, err
			}
		}
		leaves[name] = f.entries()
		if err := d.change(leaves[name], keys); err != nil {
			return entry{}, err
		}
	}
	return d.putShards(top, leaves)
}

// spread moves the files of a kind that has become large into 256 folders.
func (d *draft) spread(kind string, flat map[string]entry, changed []string) (entry, error) {
	leaves, names := map[string]map[string]entry{}, map[string]string{}
	for _, key := range changed {
		names[fileName(key)] = key
	}
	for name, e := range flat {
		key, ours := keyOf(kind, name)
		if !ours {
			return entry{}, d.base.damaged(folderName(kind)+"/"+name, errForm)
		}
		if key == "" {
			key = names[name]
		}
		if key == "" { // long, and written before
			list := []item{{path: folderName(kind) + "/" + name, id: e.id}}
			if err := d.base.fill(list); err != nil {
				return entry{}, err
			}
			key = list[0].rec.key
		}
		if leaves[shard(key)] == nil {
			leaves[shard(key)] = map[string]entry{}
		}
		leaves[shard(key)][name] = e
	}
	return d.putShards(map[string]entry{}, leaves)
}

// putShards writes a folder of folders, in which leaves are new.
func (d *draft) putShards(top map[string]entry, leaves map[string]map[string]entry) (entry, error) {
	for name, leaf := range leaves {
		e, err := putFolder(d.base.objects, leaf)
		if err != nil {
			return entry{}, err
		}
		put(top, name, e)
	}
	return putFolder(d.base.objects, top)
}

// put puts a folder into the one above it, or takes it out when empty.
func put(top map[string]entry, name string, e entry) {
	if e.name = name; e.id == "" {
		delete(top, name)
	} else {
		top[name] = e
	}
}

// change writes the files of these keys into a folder. It reads what they replace
// first, so that it never overwrites damage.
func (d *draft) change(in map[string]entry, keys []string) error {
	var old []item
	for _, key := range keys {
		if e, ok := in[fileName(key)]; ok {
			old = append(old, item{path: folderName(driver.Kind(key)) + "/" + e.name, id: e.id, key: key})
		}
	}
	if err := d.base.fill(old); err != nil {
		return err
	}
	for _, key := range keys {
		name := fileName(key)
		r := d.changes[key]
		if r == nil {
			delete(in, name)
			continue
		}
		id, err := d.base.objects.put("blob", r.encode())
		if err != nil {
			return err
		}
		in[name] = entry{name: name, id: id}
	}
	return nil
}

// putFolder writes a tree; an empty one has no id.
func putFolder(o *objects, entries map[string]entry) (e entry, err error) {
	if e.dir = true; len(entries) > 0 {
		e.id, err = o.put("tree", encodeTree(slices.Collect(maps.Values(entries))))
	}
	return e, err
}
