package filestore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// errMoved: the store changed under a reader.
var errMoved = errors.New("store changed while it was read")

const frozenPause = 2 * time.Millisecond

// Read implements driver.Store.
func (s *Store) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	done, err := s.open.Use()
	if err != nil {
		return driver.Snapshot{}, err
	}
	defer done()
	var snap driver.Snapshot
	err = s.view(ctx, q.Since, func(v *view) error {
		if q.Guarded {
			v.fresh = q.New
		}
		snap = driver.Snapshot{Rev: v.state.Revision}
		// Read after the revision: no record up to it is of the future.
		now := local.Clock()
		snap.Now = time.Unix(0, now.Wall).UTC()
		err := v.query(ctx, q, func(r record) {
			snap.Records = append(snap.Records, driver.Record{Key: r.key, Rev: r.rev, Time: r.time.Time(now), Value: r.value})
		})
		snap.Old = v.old
		return err
	})
	if err != nil {
		return driver.Snapshot{}, err
	}
	return snap, nil
}

// view runs fn on one view of the store. It may run it several times. Unless
// since is 0, what the memory has of that revision or a later one is good enough.
func (s *Store) view(ctx context.Context, since int64, fn func(*view) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.same(); err != nil {
		return err
	}
	for range 3 {
		if err := s.glance(since, fn); err != errMoved {
			return err
		}
		fault.Point("file.moved")
	}
	if err := s.guard.Lock(ctx); errors.Is(err, driver.ErrDenied) {
		return s.viewFrozen(ctx, fn)
	} else if err != nil {
		return err
	}
	defer s.guard.Unlock()
	t := s.tree()
	defer t.close()
	st, err := s.settle(t)
	if err != nil {
		return err
	}
	return fn(&view{s: s, tree: t, state: st})
}

// glance runs fn without a lock, and returns errMoved if the store changed
// meanwhile.
func (s *Store) glance(since int64, fn func(*view) error) error {
	st, err := s.readState()
	if err == errNoState || err == nil && !st.counts(s.life) {
		return errMoved
	}
	if err != nil {
		return err
	}
	v := &view{s: s, state: st, memory: since > 0 && since <= st.Revision && s.memory.follow(s, st)}
	unheard := false
	if !v.memory {
		if unheard, err = s.beyond(st.End, st.Generation); err != nil {
			return err
		}
	}
	v.tree = s.tree()
	defer v.tree.close()
	if (unheard || st.Applied < st.End) && s.finish(v.tree) {
		return errMoved
	}
	if st.Applied < st.End {
		fault.Point("file.overlay")
		j, err := s.slice(st, st.Applied)
		if err == nil {
			v.over, err = j.last(0)
		}
		if err != nil {
			return s.unlessMoved(v, err)
		}
	}
	err = s.unlessMoved(v, fn(v))
	if err == nil {
		v.note()
	}
	return err
}

// finish ends what a dead writer began. If the guard is taken, the writer lives
// and will do it; if finishing fails, the journal has what we need.
func (s *Store) finish(t *tree) bool {
	if s.frozen || !s.guard.TryLock() {
		return false
	}
	defer s.guard.Unlock()
	_, err := s.settle(t)
	return err == nil
}

// unlessMoved returns err if the journal shows that nothing the view has looked
// at was written since.
func (s *Store) unlessMoved(v *view, err error) error {
	fault.Point("file.again")
	if v.old && len(v.found)+len(v.scans) == 0 && err == nil {
		return nil // it looked at nothing but the memory
	}
	now, again := s.readState()
	switch {
	case again != nil || now.Generation != v.state.Generation:
		return errMoved
	case now.Revision == v.state.Revision:
		return err
	}
	j, again := s.slice(now, v.state.End)
	if again != nil {
		return errMoved
	}
	since, again := j.last(0)
	if again != nil || v.saw(since) {
		return errMoved
	}
	return err
}

// viewFrozen is for processes that may not take the guard: they try until they
// succeed, and read the whole journal if nobody has replayed it.
func (s *Store) viewFrozen(ctx context.Context, fn func(*view) error) error {
	for {
		if err := s.glance(0, fn); err != errMoved {
			return err
		}
		if st, err := s.readState(); err != nil || !st.counts(s.life) {
			if err := s.overview(fn); err != errMoved {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(frozenPause):
		}
	}
}

func (s *Store) overview(fn func(*view) error) error {
	_, j, err := s.scan()
	if err != nil {
		return err
	}
	t := s.tree()
	defer t.close()
	v := &view{s: s, tree: t, state: state{Revision: j.rev, Kinds: j.kinds}}
	if v.over, err = j.last(0); err == nil {
		err = fn(v)
	}
	if _, again, scanErr := s.scan(); scanErr != nil || again.rev != j.rev {
		return errMoved
	}
	return err
}

// A view is the store at one revision: the record files, and over them what
// only the journal has.
type view struct {
	s     *Store
	tree  *tree
	state state
	over  map[string]record

	gets  []string // keys that were looked at
	scans []string // prefixes that were listed

	memory bool     // what the memory has is good enough
	fresh  []string // keys that need no look then
	old    bool     // it was used
	found  []record // in the files, or not found there
}

// note puts what was found into the memory.
func (v *view) note() {
	if !v.memory && (len(v.found) == 0 || !v.s.memory.follow(v.s, v.state)) {
		return
	}
	for _, r := range v.found {
		v.s.memory.saw(v.state, r)
	}
}

// saw reports whether one of the records would have been seen by the view.
func (v *view) saw(records map[string]record) bool {
	for key := range records {
		if slices.Contains(v.gets, key) || slices.ContainsFunc(v.scans, func(p string) bool { return strings.HasPrefix(key, p) }) {
			return true
		}
	}
	return false
}

// get returns the record of key; ok is false when there is none.
func (v *view) get(key string) (record, bool, error) {
	v.gets = append(v.gets, key)
	if v.memory {
		if r, known := v.s.memory.get(v.state, key); known {
			v.old = true
			r.value = bytes.Clone(r.value)
			return r, r.value != nil, nil
		}
		if slices.Contains(v.fresh, key) {
			v.old = true
			return record{}, false, nil
		}
	}
	r, ok, err := v.read(key)
	if err == nil && driver.CheckKey(key) == nil {
		r.key = key
		v.found = append(v.found, r)
	}
	return r, ok, err
}

func (v *view) read(key string) (record, bool, error) {
	if r, ok := v.over[key]; ok {
		return r, r.value != nil, nil
	}
	if driver.CheckKey(key) != nil {
		return record{}, false, nil // no record has it
	}
	r, ok, err := v.tree.read(key)
	if err == nil && ok {
		err = v.s.notAhead(r, v.state.Revision)
	}
	return r, ok, err
}

func (v *view) query(ctx context.Context, q driver.Query, add func(record)) error {
	for _, key := range q.Keys {
		r, ok, err := v.get(key)
		if err != nil {
			return err
		}
		if ok {
			add(r)
		}
	}
	for _, rg := range q.Ranges {
		if err := v.scan(ctx, rg, add); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) scan(ctx context.Context, rg driver.Range, add func(record)) error {
	v.scans = append(v.scans, rg.Prefix)
	if records, ok := v.written(rg); ok {
		each(records, add)
		return nil
	}
	part := driver.Kind(rg.Prefix) != "" && (rg.Limit != 0 || rg.After != "" || rg.Prefix != driver.Kind(rg.Prefix))
	if part && v.state.Lives != nil {
		if keys, err := v.indexed(rg); err == nil {
			records, err := v.readAll(ctx, keys)
			if err != nil {
				return err
			}
			if len(records) == len(keys) { // else a person removed some: make a new index
				each(records, add)
				return nil
			}
		}
	}
	keys, err := v.keys(ctx, rg, part)
	if err != nil {
		return err
	}
	records, err := v.readAll(ctx, some(keys, rg.Limit))
	each(records, add)
	return err
}

// written returns what commits after a revision wrote, if a range asks for that and
// the journal still has all of them: then no file is read.
func (v *view) written(rg driver.Range) (records []record, ok bool) {
	if rg.Since == 0 || rg.Limit != 0 || v.state.Lives == nil {
		return nil, false
	}
	entries, err := v.s.entriesSince(rg.Since, v.state)
	if err != nil {
		return nil, false
	}
	last, err := journal{entries: entries}.last(0)
	if err != nil {
		return nil, false
	}
	for key, r := range last {
		if r.value != nil && r.rev > rg.Since && rg.Selects(key) {
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b record) int { return strings.Compare(a.key, b.key) })
	return records, true
}

func each(records []record, add func(record)) {
	for _, r := range records {
		add(r)
	}
}

// readAll returns the records of the keys; those that a person removed just now
// are not there.
func (v *view) readAll(ctx context.Context, keys []string) ([]record, error) {
	records := make([]record, 0, len(keys))
	for i, key := range keys {
		if i%256 == 255 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r, ok, err := v.read(key)
		if err != nil {
			return nil, err
		}
		if ok {
			records = append(records, r)
		}
	}
	return records, nil
}

// keys lists the keys of a range, whatever its limit, in order. If they are a part
// of a large kind, it makes the index of that kind.
func (v *view) keys(ctx context.Context, rg driver.Range, part bool) ([]string, error) {
	kind, _, whole := strings.Cut(rg.Prefix, "/")
	listed := rg.Prefix
	if part {
		listed = kind + "/"
	}
	folders := []string{encodeName(kind)}
	switch {
	case whole && kind == "":
		return nil, nil
	case !whole:
		var err error
		if folders, err = v.tree.folders(); err != nil {
			return nil, err
		}
	}
	var keys []string
	for _, folder := range folders {
		list, err := v.keysIn(ctx, folder)
		if err != nil {
			return nil, err
		}
		for _, key := range list {
			if _, over := v.over[key]; !over && strings.HasPrefix(key, listed) {
				keys = append(keys, key)
			}
		}
	}
	for key, r := range v.over {
		if r.value != nil && strings.HasPrefix(key, listed) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if part && len(keys) >= indexLeast && v.state.Lives != nil {
		v.s.makeIndex(listed, keys, v.state)
	}
	return slices.DeleteFunc(keys, func(key string) bool { return !rg.Selects(key) }), nil
}

// keysIn lists the keys in a folder. If a name was cut short, the key is in the
// file.
func (v *view) keysIn(ctx context.Context, folder string) ([]string, error) {
	kind, cutKind, ok := decodeName(folder)
	if !ok && !cutKind {
		return nil, v.s.foreign(recordsDir + "/" + folder)
	}
	files, err := v.tree.files(folder)
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(files))
	for i, name := range files {
		rest, cut, ok := decodeName(name)
		switch {
		case ok && !cutKind:
			keys = append(keys, kind+"/"+rest)
			continue
		case !ok && !cut:
			return nil, v.s.foreign(recordPath(folder, name))
		}
		if i%256 == 255 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r, found, err := v.tree.readFile(folder, name)
		if err != nil {
			return nil, err
		}
		if found && fileOf(r.key) != recordPath(folder, name) {
			return nil, v.s.foreign(recordPath(folder, name))
		}
		if found {
			keys = append(keys, r.key)
		}
	}
	return keys, nil
}

// Wait implements driver.Store.
func (s *Store) Wait(ctx context.Context, guards []driver.Guard) error {
	return local.Holding(s.holding).Wait(ctx, s.open, s.wake, guards)
}

// holding reports whether all guards hold, and at which revision.
func (s *Store) holding(ctx context.Context, guards []driver.Guard) (holds bool, rev int64, err error) {
	err = s.view(ctx, 0, func(v *view) error {
		holds, rev = true, v.state.Revision
		for _, g := range guards {
			at := v.state.Kinds[g.Key]
			if !g.IsKind() {
				r, ok, err := v.get(g.Key)
				if err != nil {
					return err
				}
				if at = 0; ok {
					at = r.rev
				}
			}
			if g.IsKind() && at > g.Rev || !g.IsKind() && at != g.Rev {
				holds = false
				return nil
			}
		}
		return nil
	})
	return holds, rev, err
}
