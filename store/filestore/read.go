package filestore

import (
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
	err = s.view(ctx, func(v *view) error {
		snap = driver.Snapshot{Rev: v.state.Revision}
		// Read after the revision: no record up to it is of the future.
		now := local.Clock()
		snap.Now = time.Unix(0, now.Wall).UTC()
		return v.query(ctx, q, func(r record) {
			snap.Records = append(snap.Records, driver.Record{Key: r.key, Rev: r.rev, Time: r.time.Time(now), Value: r.value})
		})
	})
	if err != nil {
		return driver.Snapshot{}, err
	}
	return snap, nil
}

// view runs fn on one view of the store. It may run it several times.
func (s *Store) view(ctx context.Context, fn func(*view) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.same(); err != nil {
		return err
	}
	for range 3 {
		if err := s.glance(fn); err != errMoved {
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
func (s *Store) glance(fn func(*view) error) error {
	st, err := s.readState()
	if err == errNoState || err == nil && !st.counts(s.life) {
		return errMoved
	}
	if err != nil {
		return err
	}
	unheard, err := s.unheard(st)
	if err != nil {
		return err
	}
	t := s.tree()
	defer t.close()
	if (unheard || st.Applied < st.End) && s.finish(t) {
		return errMoved
	}
	v := &view{s: s, tree: t, state: st}
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
	return s.unlessMoved(v, fn(v))
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
		if err := s.glance(fn); err != errMoved {
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
	return v.read(key)
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
	keys, err := v.keys(ctx, rg.Prefix)
	if err != nil {
		return err
	}
	switch {
	case rg.Limit > 0:
		keys = keys[:min(len(keys), rg.Limit)]
	case rg.Limit < 0:
		keys = keys[max(0, len(keys)+rg.Limit):]
	}
	for i, key := range keys {
		if i%256 == 255 && ctx.Err() != nil {
			return ctx.Err()
		}
		r, ok, err := v.read(key)
		if err != nil {
			return err
		}
		if ok { // else it was removed by hand just now
			add(r)
		}
	}
	return nil
}

// keys lists the keys that begin with prefix, in order.
func (v *view) keys(ctx context.Context, prefix string) ([]string, error) {
	v.scans = append(v.scans, prefix)
	kind, _, whole := strings.Cut(prefix, "/")
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
			if _, over := v.over[key]; !over && strings.HasPrefix(key, prefix) {
				keys = append(keys, key)
			}
		}
	}
	for key, r := range v.over {
		if r.value != nil && strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
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
	err = s.view(ctx, func(v *view) error {
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
