package sqlitestore

import (
	"context"
	"slices"
	"time"

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
}

func (r *reading) query(q driver.Query) (err error) {
	if r.snap.Rev, err = r.conn.revision(); err != nil {
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
	r.snap.Now = time.Unix(0, r.now.Wall).UTC()
	r.snap.Records = make([]driver.Record, 0, len(q.Keys))
	for _, key := range q.Keys {
		if key == "" {
			continue // not a record
		}
		stmt, err := r.conn.Prepare(sqlRecord)
		if err != nil {
			return err
		}
		stmt.BindText(1, key)
		if err := r.collect(stmt); err != nil {
			return err
		}
	}
	for _, rg := range q.Ranges {
		if err := r.scan(rg); err != nil {
			return err
		}
	}
	return nil
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
	stmt.BindText(1, max(rg.Prefix, "\x00")) // above the empty key
	if bounded {
		stmt.BindText(2, end)
	}
	stmt.BindInt64(3, last)
	first := len(r.snap.Records)
	if err := r.collect(stmt); err != nil {
		return err
	}
	if rg.Limit < 0 {
		slices.Reverse(r.snap.Records[first:])
	}
	return nil
}

// collect adds the rows of stmt.
func (r *reading) collect(stmt *sqlite.Stmt) error {
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
		written := local.Stamp{Wall: stmt.ColumnInt64(2), Awake: stmt.ColumnInt64(3), Domain: stmt.ColumnText(4)}
		value := make([]byte, stmt.ColumnLen(5))
		stmt.ColumnBytes(5, value)
		r.snap.Records = append(r.snap.Records, driver.Record{
			Key: stmt.ColumnText(0), Rev: stmt.ColumnInt64(1), Time: written.Time(r.now), Value: value,
		})
	}
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

// holding reports whether all guards hold, and at which revision.
func (s *Store) holding(ctx context.Context, guards []driver.Guard) (holds bool, rev int64, err error) {
	if err := s.same(); err != nil {
		return false, 0, err
	}
	n := s.last.read()
	err = s.conns.read(ctx, func(c conn) error {
		return c.snapshot(func() (err error) {
			st, err := c.state(state{})
			if err == nil {
				err = s.behind(n, st)
			}
			if err != nil {
				return err
			}
			rev = st.rev
			holds, err = c.holds(guards, st.kinds)
			return err
		})
	})
	return holds, rev, err
}

// holds checks guards in the transaction that is open.
func (c conn) holds(guards []driver.Guard, kinds map[string]int64) (bool, error) {
	for _, g := range guards {
		if g.IsKind() {
			if kinds[g.Key] > g.Rev {
				return false, nil
			}
			continue
		}
		rev, _, err := c.revOf(sqlRev, g.Key)
		if err != nil || rev != g.Rev {
			return false, err
		}
	}
	return true, nil
}
