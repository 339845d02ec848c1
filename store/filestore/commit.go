package filestore

import (
	"context"
	"fmt"
	"maps"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// Commit implements driver.Store.
func (s *Store) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	done, err := s.open.Use()
	if err != nil {
		return 0, err
	}
	defer done()
	if len(b.Writes) == 0 {
		return local.Holding(s.holding).Check(ctx, b)
	}
	return s.group.Commit(ctx, b)
}

// apply carries out the batches of a group under the guard. The group's first
// batch is that of the caller we run in: if its context ends before anything is
// begun, it leaves, and the others queue again.
func (s *Store) apply(group []*driver.Pending) {
	err := s.write(group)
	if err == nil {
		return
	}
	driver.Answer(group, s.open, err)
}

// write takes the guard and carries out the batches. An error means that none
// was begun; a later error is in the batch it concerns.
func (s *Store) write(group []*driver.Pending) error {
	fault.Point("file.gate")
	if s.frozen {
		return fmt.Errorf("%w: %s cannot be written", driver.ErrDenied, s.dir)
	}
	ctx, stop := s.open.Living(group[0].Ctx)
	defer stop()
	if err := s.guard.Lock(ctx); err != nil {
		return driver.Left(ctx, err)
	}
	defer s.guard.Unlock()
	if err := s.same(); err != nil {
		return err
	}
	t := s.tree()
	defer t.close()
	for len(group) > 0 {
		n := round(group)
		tx := tx{s: s, tree: t, revs: make(map[string]int64), there: make(map[string]bool)}
		if err := tx.run(group[:n]); err != nil {
			for _, p := range group[:n] {
				if p.Rev != 0 || p.Err == nil {
					p.Rev, p.Err = 0, err
				}
			}
		}
		fault.Point("file.touch")
		s.wake.Touch(tx.wrote)
		group = group[n:]
	}
	return nil
}

// round returns how many batches fit into one entry of the journal.
func round(group []*driver.Pending) int {
	size := 0
	for n, p := range group {
		for _, w := range p.Batch.Writes {
			size += len(w.Key) + len(w.Value) + 16
		}
		if n > 0 && size > roundLimit {
			return n
		}
	}
	return len(group)
}

// A tx is the transaction of some batches.
type tx struct {
	s       *Store
	tree    *tree
	before  state // of the store
	state   state
	now     local.Stamp
	revs    map[string]int64 // of the keys looked at or written so far
	there   map[string]bool  // keys that have a file
	payload []byte
	wrote   []string // keys
}

// run decides the batches, appends what they write, and writes the record files.
// An error concerns all batches that passed their guards.
func (t *tx) run(group []*driver.Pending) error {
	s := t.s
	st, err := s.settle(t.tree)
	if err != nil {
		return local.Full(err)
	}
	t.state = st
	t.state.Kinds = maps.Clone(st.Kinds)
	s.memory.follow(s, st)
	t.before = st
	t.now = local.Clock()
	t.payload = appendTime(nil, t.now)
	for _, p := range group {
		p.Err = t.one(p)
	}
	if len(t.wrote) == 0 {
		return nil
	}
	return t.commit(st)
}

// one decides a batch and, if its guards hold, adds it.
func (t *tx) one(p *driver.Pending) error {
	if err := p.Ctx.Err(); err != nil {
		return err
	}
	for _, g := range p.Batch.Guards {
		if g.IsKind() {
			if t.state.Kinds[g.Key] > g.Rev {
				return driver.ErrConflict
			}
			continue
		}
		rev, err := t.rev(g.Key)
		if err != nil {
			return err
		}
		if rev != g.Rev {
			return driver.ErrConflict
		}
	}
	for _, w := range p.Batch.Writes { // do not overwrite damage
		if _, err := t.rev(w.Key); err != nil {
			return err
		}
	}
	p.Rev = max(t.state.Revision+1, p.Batch.Floor)
	t.state.Revision = p.Rev
	t.payload = appendBatch(t.payload, p.Rev, p.Batch.Writes)
	for _, w := range p.Batch.Writes {
		t.state.Kinds[driver.Kind(w.Key)] = p.Rev
		t.revs[w.Key] = p.Rev
		if w.Value == nil {
			t.revs[w.Key] = 0
		}
		t.wrote = append(t.wrote, w.Key)
	}
	return nil
}

// rev returns the revision of a record, 0 if there is none.
func (t *tx) rev(key string) (int64, error) {
	if rev, ok := t.revs[key]; ok {
		return rev, nil
	}
	r, known := t.s.memory.get(t.before, key)
	if !known {
		var err error
		if r, err = t.read(key); err != nil {
			return 0, err
		}
	}
	t.there[key] = r.value != nil
	if r.value == nil {
		r.rev = 0 // of its deletion
	}
	t.revs[key] = r.rev
	return r.rev, nil
}

// read reads the file of a record and remembers it.
func (t *tx) read(key string) (record, error) {
	r, ok, err := t.tree.read(key)
	if err == nil {
		err = t.s.notAhead(r, t.before.Revision)
	}
	if err != nil {
		return record{}, err
	}
	if !ok {
		r = record{key: key}
	}
	t.s.memory.saw(t.before, r)
	return r, nil
}

// notAhead refuses a record that is newer than the store: its commit is gone
// from the journal.
func (s *Store) notAhead(r record, rev int64) error {
	if r.rev <= rev {
		return nil
	}
	return fmt.Errorf("%w: %s is of revision %d, the journal of %d; %s", driver.ErrDamaged, s.path(fileOf(r.key)), r.rev, rev, mendJournal)
}

// commit appends the payload to the journal as it was at st. Once that is
// synced the batches are committed, whatever happens to the record files: until
// those are complete, everyone reads the journal.
func (t *tx) commit(st state) error {
	s := t.s
	next := t.state
	st, err := t.room(st)
	if err != nil {
		return err
	}
	records, err := decodeCommits(t.payload)
	if err != nil {
		return err
	}
	b := encodeEntry(st.Generation, next.Revision, commitEntry, st.End, t.payload)
	fault.Point("file.append")
	if _, err := s.journal.WriteAt(b, st.End); err != nil {
		return local.Full(s.explain(err, journalFile)) // an incomplete entry does not count
	}
	startSyncData(s.journal, st.End, len(b))
	drafts, draftErr := t.tree.draft(records, t.there) // while the disk works
	fault.Point("file.sync")
	if err := syncData(s.journal); err != nil {
		return s.explain(err, journalFile)
	}
	fault.Point("file.announce")
	next.Generation, next.Applied, next.End = st.Generation, st.Applied, st.End+int64(len(b))
	if err := s.publish(next); err != nil {
		return err
	}
	s.memory.wrote(t.before, next, records)
	if draftErr == nil && t.tree.install(drafts) == nil {
		next.Applied, next.Spares = next.End, t.tree.spares
		fault.Point("file.applied")
		_ = s.publish(next) // if this fails, the next writer replays
	}
	return nil
}

// room returns st, or the state after the journal started over if the payload does not
// fit into this half.
func (t *tx) room(st state) (state, error) {
	size := int64(entryHead + len(t.payload) + entryAlign)
	if st.End+size <= halfStart(st.Generation)+t.s.limit {
		return st, nil
	}
	st, err := t.s.empty(t.tree, st)
	if err != nil {
		return st, local.Full(err)
	}
	if st.End+size > halfStart(st.Generation)+halfSize {
		return st, fmt.Errorf("%w: too many kinds of records in %s", driver.ErrTooLarge, t.s.dir)
	}
	return st, nil
}
