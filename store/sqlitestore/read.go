package sqlitestore

import (
	"context"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// Read implements driver.Store.
func (s *Store) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	done, err := s.life.Use()
	if err != nil {
		return driver.Snapshot{}, err
	}
	defer done()
	if err := ctx.Err(); err != nil {
		return driver.Snapshot{}, err
	}
	if snap, ok := s.memory.recall(q); ok {
		return snap, nil // the commit finds out whether it is true
	}
	if err := s.same(); err != nil {
		return driver.Snapshot{}, err
	}
	var snap driver.Snapshot
	n := s.last.read() // before the view, which then is not behind it
	err = s.conns.read(ctx, func(c conn) error {
		r := reading{ctx: ctx, store: s, note: n, conn: c}
		err := c.snapshot(func() error { return r.query(q) })
		snap = r.snap
		return err
	})
	if err != nil {
		return driver.Snapshot{}, err
	}
	return snap, nil
}

// A reading is one Read under way.
type reading struct {
	ctx   context.Context
	store *Store
	note  note // as it was before
	conn  conn
	now   local.Stamp
	snap  driver.Snapshot

	version int64                // of the writer's connection; 0: this is another
	seen    map[string]*sighting // what was looked at so far
}

func (r *reading) query(q driver.Query) error {
	if err := r.begin(); err != nil {
		return err
	}
	if err := r.keys(q.Keys); err != nil {
		return err
	}
	for _, rg := range q.Ranges {
		if err := r.scan(rg); err != nil {
			return err
		}
	}
	return nil
}

// begin finds the revision of the view, and refuses one that has lost commits.
func (r *reading) begin() (err error) {
	if s := r.store; r.conn == s.conns.writer {
		err = s.catchUp()
		r.version, r.snap.Rev = s.version, s.known.rev
	} else {
		r.snap.Rev, err = r.conn.revision()
	}
	if err != nil {
		return err
	}
	if r.note.rev > r.snap.Rev {
		st, err := r.conn.state(state{})
		if err == nil {
			err = r.store.behind(r.note, st)
		}
		if err != nil {
			return err
		}
		if r.note.of(st.kinds[idKey]) {
			r.snap.Rev = r.note.rev
		}
	}
	// Read after the snapshot was taken: no record in it is of the future.
	r.now = local.Clock()
	r.snap.Now = r.now.Moment()
	return nil
}

// keys adds the records of the keys, and notes what it sees.
func (r *reading) keys(keys []string) error {
	r.snap.Records = make([]driver.Record, 0, len(keys))
	for _, key := range keys {
		if key == "" {
			continue // not a record
		}
		s, err := r.one(key)
		if err != nil {
			return err
		}
		if s.rev > 0 {
			r.snap.Records = append(r.snap.Records, s.record(key, r.now))
		}
	}
	r.remember()
	return nil
}

// one returns a record.
func (r *reading) one(key string) (s *sighting, err error) {
	s, ok := r.store.memory.exact(key, r.version)
	if !ok {
		if s, err = r.conn.record(key); err != nil {
			return nil, err
		}
	}
	if r.seen == nil {
		r.seen = make(map[string]*sighting)
	}
	r.seen[key] = s
	return s, nil
}

func (r *reading) remember() {
	if !r.store.conns.frozen {
		r.store.memory.note(r.seen, r.snap.Rev, r.version)
	}
}

func (r *reading) scan(rg driver.Range) error {
	end, bounded := after(rg.Prefix)
	sql, last := sqlFirst, limit(rg.Limit)
	switch {
	case rg.Since > 0 && bounded:
		sql, last = sqlSince, rg.Since
	case rg.Limit < 0 && bounded:
		sql = sqlLast
	case rg.Limit < 0:
		sql = sqlEnd
	case !bounded:
		sql = sqlTail
	}
	stmt, err := r.conn.Prepare(sql)
	if err != nil {
		return err
	}
	stmt.BindText(1, rg.From())
	if bounded {
		stmt.BindText(2, end)
	}
	stmt.BindInt64(3, last)
	first := len(r.snap.Records)
	err = r.rows(stmt, func(key string, s *sighting) {
		r.snap.Records = append(r.snap.Records, driver.Record{Key: key, Rev: s.rev, Time: s.written.Time(r.now), Value: s.value})
	})
	if err != nil {
		return err
	}
	if rg.Limit < 0 {
		slices.Reverse(r.snap.Records[first:])
	}
	return nil
}

// rows calls fn for each row of stmt.
func (r *reading) rows(stmt *sqlite.Stmt, fn func(key string, s *sighting)) error {
	for n := 1; ; n++ {
		row, err := stmt.Step()
		if err != nil {
			return err
		}
		if !row {
			return stmt.Reset()
		}
		if n%256 == 0 && r.ctx.Err() != nil {
			_ = stmt.Reset()
			return r.ctx.Err()
		}
		fn(stmt.ColumnText(0), sightingOf(stmt))
	}
}

// sightingOf returns the record in a row.
func sightingOf(stmt *sqlite.Stmt) *sighting {
	s := &sighting{rev: stmt.ColumnInt64(1), value: make([]byte, stmt.ColumnLen(5))}
	s.written = local.Stamp{Wall: stmt.ColumnInt64(2), Awake: stmt.ColumnInt64(3), Domain: stmt.ColumnText(4)}
	stmt.ColumnBytes(5, s.value)
	return s
}

// limit translates ours to SQLite's, where negative means all.
func limit(n int) int64 {
	switch {
	case n == 0:
		return -1
	case n < 0:
		return -int64(n)
	}
	return int64(n)
}

// after returns the least string above all that begin with prefix, if there is
// one. SQLite compares text as bytes.
func after(prefix string) (string, bool) {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return "", false
	}
	b[len(b)-1]++
	return string(b), true
}

// Wait implements driver.Store.
func (s *Store) Wait(ctx context.Context, guards []driver.Guard) error {
	return local.Holding(s.holding).Wait(ctx, s.life, s.wake, guards)
}

// holding reports whether all guards hold, and at which revision. It notes
// what it sees: a waiter that it wakes need not look again before it commits.
func (s *Store) holding(ctx context.Context, guards []driver.Guard) (holds bool, rev int64, err error) {
	if err := s.same(); err != nil {
		return false, 0, err
	}
	n := s.last.read()
	err = s.conns.read(ctx, func(c conn) error {
		r := reading{ctx: ctx, store: s, note: n, conn: c}
		err := c.snapshot(func() (err error) {
			holds, err = r.hold(guards)
			return err
		})
		rev = r.snap.Rev
		return err
	})
	return holds, rev, err
}

func (r *reading) hold(guards []driver.Guard) (bool, error) {
	if err := r.begin(); err != nil {
		return false, err
	}
	var kinds map[string]int64
	if slices.ContainsFunc(guards, driver.Guard.IsKind) {
		st, err := r.conn.state(state{})
		if err != nil {
			return false, err
		}
		kinds = st.kinds
	}
	holds, err := holdAll(guards, kinds, r.one)
	if err == nil {
		r.remember()
	}
	return holds, err
}

// holdAll checks guards in the transaction that is open.
func holdAll(guards []driver.Guard, kinds map[string]int64, look func(key string) (*sighting, error)) (bool, error) {
	for _, g := range guards {
		if g.IsKind() {
			if kinds[g.Key] > g.Rev {
				return false, nil
			}
			continue
		}
		s, err := look(g.Key)
		if err != nil {
			return false, err
		}
		if s.rev != g.Rev {
			return false, nil
		}
	}
	return true, nil
}
