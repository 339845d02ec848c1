package filestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/store/driver"
)

var errLost = errors.New("lacks commits that were announced")

// settle brings the store to rest. A process that takes the guard calls it
// first. If the last holder of the guard died in the middle, or power was lost,
// settle replays the journal.
func (s *Store) settle(t *tree) (state, error) {
	st, err := s.readState()
	if err != nil && err != errNoState {
		return state{}, err
	}
	known := err == nil
	if known && st.counts(s.life) && st.Applied == st.End {
		t.spares = st.Spares
		unheard, err := s.unheard(st)
		if err != nil || !unheard {
			return st, err
		}
	}
	return s.recover(t, st, known)
}

// unheard reports whether the journal goes further than st: an append whose
// writer died before it announced it, or a newer generation, in which nothing is
// committed before it is announced.
func (s *Store) unheard(st state) (bool, error) {
	more, err := s.beyond(st.End, st.Generation)
	if err != nil || more {
		return more, err
	}
	return s.beyond(halfStart(st.Generation+1), st.Generation+1)
}

// beyond reports whether there may be an entry of that generation or a later one.
func (s *Store) beyond(pos int64, gen uint64) (bool, error) {
	var head [entryHead]byte
	if _, err := s.journal.ReadAt(head[:], pos); err == io.EOF {
		return false, nil
	} else if err != nil {
		return false, s.explain(err, journalFile)
	}
	found, ok := entryGeneration(head[:])
	return ok && found >= gen, nil
}

// recover replays the journal. If st counts, only its last commits can be
// missing from the record files; otherwise any of them can.
func (s *Store) recover(t *tree, st state, known bool) (state, error) {
	fault.Point("file.recover")
	data, j, err := s.scan()
	if err != nil {
		return state{}, err
	}
	if known && j.lacks(st) {
		return state{}, s.explain(errLost, journalFile)
	}
	// Write it again before syncing it: a successful sync does not repair a
	// sync that failed in another process.
	if _, err := s.journal.WriteAt(data[j.base.pos:j.end], j.base.pos); err != nil {
		return state{}, s.explain(err, journalFile)
	}
	if err := syncData(s.journal); err != nil {
		return state{}, s.explain(err, journalFile)
	}
	next := state{
		Format: format, Generation: j.gen, Revision: j.rev, End: j.end, Applied: j.base.end,
		Kinds: j.kinds, Lives: st.lived(s.life),
	}
	if known && st.counts(s.life) && st.Generation == j.gen {
		next.Applied = st.Applied
	}
	if err := s.publish(next); err != nil {
		return state{}, err
	}
	if err := s.replay(t, j, next.Applied); err != nil {
		return state{}, err
	}
	next.Applied, next.Spares = next.End, t.spares
	return next, s.publish(next)
}

// lacks reports whether the journal ends before a commit that st knows of.
func (j journal) lacks(st state) bool {
	return st.Generation > j.gen || st.Generation == j.gen && (st.End > j.end || st.Revision > j.rev)
}

// replay writes into the record files what the journal has from pos on.
func (s *Store) replay(t *tree, j journal, pos int64) error {
	last, err := j.last(pos)
	if err != nil {
		return s.explain(err, journalFile)
	}
	for _, r := range last {
		there, err := t.content(file(r.key))
		if err != nil {
			return err
		}
		if r.value != nil && bytes.Equal(there, encodeRecord(r)) || r.value == nil && there == nil {
			continue
		}
		if err := t.put(r, there != nil); err != nil {
			return err
		}
	}
	return nil
}

// last returns the last record of each key that the entries from pos on write.
func (j journal) last(pos int64) (map[string]record, error) {
	last := make(map[string]record)
	for _, e := range j.entries {
		if e.pos < pos {
			continue
		}
		records, err := decodeCommits(e.payload)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			last[r.key] = r
		}
	}
	return last, nil
}

// scan reads the whole journal.
func (s *Store) scan() ([]byte, journal, error) {
	fi, err := s.journal.Stat()
	if err != nil {
		return nil, journal{}, s.explain(err, journalFile)
	}
	data := make([]byte, min(fi.Size(), pageSize+2*halfSize))
	// On Windows the first byte cannot be read while someone has the guard.
	if _, err := s.journal.ReadAt(data[min(1, len(data)):], 1); err != nil && err != io.EOF {
		return nil, journal{}, s.explain(err, journalFile)
	}
	j, err := scanJournal(data)
	return data, j, s.explain(err, journalFile)
}

// verify checks the journal for damage before anyone relies on it. Record files
// are checked when they are read.
func (s *Store) verify(ctx context.Context) error {
	line := make([]byte, entryAlign)
	if _, err := s.journal.ReadAt(line, int64(len(journalText))); err != nil && err != io.EOF {
		return s.explain(err, journalFile)
	}
	if err := checkHead(line); err != nil {
		return s.explain(err, journalFile)
	}
	for range 3 {
		st, err := s.readState()
		if err == errNoState {
			break
		}
		if err != nil {
			return err
		}
		if _, err := s.slice(st, 0); err == nil {
			return nil
		}
	}
	if err := s.guard.Lock(ctx); err == nil {
		defer s.guard.Unlock()
	} else if !errors.Is(err, driver.ErrDenied) {
		return err
	}
	st, stErr := s.readState()
	_, j, err := s.scan()
	if err == nil && stErr == nil && j.lacks(st) {
		err = s.explain(errLost, journalFile)
	}
	return err
}

// slice reads the journal from pos, or the beginning of the half, up to the end
// that st knows.
func (s *Store) slice(st state, pos int64) (journal, error) {
	start := halfStart(st.Generation)
	pos = max(pos, start)
	if st.End < pos || st.End > start+halfSize {
		return journal{}, s.explain(errLost, journalFile)
	}
	entries, err := s.entries(st.Generation, pos, st.End)
	if err != nil {
		return journal{}, err
	}
	if pos == start { // the base is not a commit
		entries = entries[1:]
	}
	return journal{gen: st.Generation, end: st.End, entries: entries}, nil
}

// entries reads the entries of a generation from pos to end; with 0, as far as
// there are any.
func (s *Store) entries(gen uint64, pos, end int64) (list []entry, err error) {
	most := cmp.Or(end, halfStart(gen)+halfSize)
	data := make([]byte, max(0, most-pos))
	if _, err := s.journal.ReadAt(data, pos); err != nil && err != io.EOF {
		return nil, s.explain(err, journalFile)
	}
	for at := pos; at < most; {
		e, ok := decodeEntry(data[at-pos:], at)
		switch {
		case ok && e.gen == gen:
			list, at = append(list, e), e.end
		case end == 0:
			return list, nil
		default:
			return nil, s.explain(errMiddle, journalFile)
		}
	}
	return list, nil
}

// empty starts the journal over in its other half, when everything in this
// half is in the record files and those are on the disk.
func (s *Store) empty(t *tree, st state) (state, error) {
	fault.Point("file.empty")
	j, err := s.slice(st, 0)
	if err != nil {
		return st, err
	}
	last, err := j.last(0)
	if err != nil {
		return st, s.explain(err, journalFile)
	}
	if err := s.syncRecords(t, last); err != nil {
		return st, err
	}
	next := st
	next.Generation++
	pos := halfStart(next.Generation)
	b := encodeEntry(next.Generation, st.Revision, baseEntry, pos, encodeKinds(st.Kinds))
	next.End = pos + int64(len(b))
	next.Applied = next.End
	if fi, err := s.journal.Stat(); err != nil {
		return st, s.explain(err, journalFile)
	} else if fi.Size() < pos+halfSize { // the first time
		b = append(b, make([]byte, max(0, halfSize-len(b)))...)
	}
	fault.Point("file.base")
	if _, err := s.journal.WriteAt(b, pos); err != nil {
		return st, s.explain(err, journalFile)
	}
	if err := syncData(s.journal); err != nil {
		return st, s.explain(err, journalFile)
	}
	fault.Point("file.emptied")
	return next, s.publish(next)
}

// syncRecords puts the files of these records, and their folders, on the disk.
func (s *Store) syncRecords(t *tree, last map[string]record) error {
	folders := make(map[string]bool)
	var keys []string // of those that have a file
	for key, r := range last {
		folder, _ := file(key)
		folders[folder] = true
		if r.value != nil {
			keys = append(keys, key)
			t.startSync(key)
		}
	}
	fault.Point("file.syncfiles")
	if err := s.eachAtOnce(keys, func(key string) error { return t.syncFile(key) }); err != nil {
		return err
	}
	fault.Point("file.syncdirs")
	if err := s.eachAtOnce(slices.Collect(maps.Keys(folders)), func(folder string) error { return t.syncFolder(folder) }); err != nil {
		return err
	}
	for _, f := range []*folder{t.records, t.spare} { // new kinds, and where files came from
		if f == nil {
			continue
		}
		if err := syncDir(f.Root); err != nil {
			return s.explain(err, f.path)
		}
	}
	return s.explain(syncDir(s.root), "")
}

// eachAtOnce runs fn for all of them, some at a time: file systems sync several
// files together in little more than the time of one.
func (s *Store) eachAtOnce(list []string, fn func(string) error) error {
	const many = 8
	var group sync.WaitGroup
	errs := make([]error, min(many, len(list)))
	for i := range errs {
		group.Go(func() {
			for n := i; n < len(list) && errs[i] == nil; n += len(errs) {
				errs[i] = fn(list[n])
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
