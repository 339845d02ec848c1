package sqlitestore

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/tasklock/tasklock/internal/fault"
	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// How often the log is looked at, and how long is too long.
const (
	shortenEvery = 1000    // commits
	longLog      = 64      // pages: each new process reads them all
	hugeLog      = 8 << 20 // bytes
)

// Commit implements driver.Store.
func (s *Store) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	done, err := s.life.Use()
	if err != nil {
		return 0, err
	}
	defer done()
	if len(b.Writes) == 0 {
		return local.Holding(s.holding).Check(ctx, b)
	}
	return s.group.Commit(ctx, b)
}

// apply carries out the batches of a group in one transaction. The group's
// first batch is that of the caller we run in: if its context ends before
// anything is begun, it leaves, and the others queue again.
func (s *Store) apply(group []*driver.Pending) {
	tx, err := s.write(group)
	if err == nil {
		fault.Point("sqlite.touch")
		s.wake.Touch(tx.wrote)
		return
	}
	driver.Answer(group, s.life, err)
}

func (s *Store) write(group []*driver.Pending) (*tx, error) {
	fault.Point("sqlite.gate")
	if s.conns.frozen {
		return nil, fmt.Errorf("%w: %s cannot be written", driver.ErrDenied, s.path)
	}
	ctx, stop := s.life.Living(group[0].Ctx)
	defer stop()
	if err := s.enter(ctx); err != nil {
		return nil, driver.Left(ctx, local.Full(err))
	}
	defer s.gate.Unlock()
	if err := s.same(); err != nil {
		return nil, err
	}
	s.conns.main.Lock()
	defer s.conns.main.Unlock()
	if err := s.sameLog(); err != nil {
		return nil, err
	}
	n := s.last.read()
	s.shorten(n)
	tx := &tx{store: s, note: n, conn: s.conns.writer, seen: make(map[string]*sighting)}
	if err := tx.run(ctx, group); err != nil {
		s.version, s.known = 0, state{}
		s.memory.forget()
		_ = tx.conn.rollback()
		return nil, driver.Left(ctx, explain(err, s.path))
	}
	s.version, s.known = tx.version, tx.state
	s.memory.note(tx.seen, tx.state.rev, tx.version)
	if len(tx.wrote) > 0 {
		fault.Point("sqlite.note")
		s.last.write(note{id: tx.state.kinds[idKey], rev: tx.state.rev})
	}
	return tx, nil
}

// shorten starts the log over when it has grown long. SQLite does that for a
// process that stays, but a new process does not know how much of the log is
// already in the database: a series of commands that each commit once and exit
// would make it longer for ever, and all of them read it from the beginning. So
// every process looks before its first commit, and now and then afterwards.
// Starting over keeps the file, because rewriting its blocks is faster than
// growing it; only a very long file is cut. After a failure the next process
// tries again.
func (s *Store) shorten(n note) {
	s.commits++
	if s.commits%shortenEvery != 1 || !s.safeFS {
		return
	}
	c := s.conns.writer
	frames, err := c.logFrames()
	if err != nil || frames < longLog {
		return
	}
	if st, err := c.state(state{}); err != nil || s.behind(n, st) != nil { // do not touch a damaged database
		return
	}
	sql := "PRAGMA wal_checkpoint(RESTART)"
	if wal, err := os.Lstat(s.path + "-wal"); err == nil && wal.Size() > hugeLog {
		sql = "PRAGMA wal_checkpoint(TRUNCATE)"
	}
	c.SetBusyTimeout(0) // readers of the log have precedence
	_, _ = c.pragma(sql)
	c.SetBusyTimeout(busyTimeout)
}

// A tx is the transaction of one group.
type tx struct {
	store *Store
	note  note // as it was before
	conn  conn
	now   local.Stamp
	state state    // as of the batches so far
	wrote []string // keys

	version int64                // of the connection
	seen    map[string]*sighting // what was looked at or written so far
}

// run begins, applies and commits. When it returns an error the transaction
// may still be open.
func (t *tx) run(ctx context.Context, group []*driver.Pending) error {
	fault.Point("sqlite.begin")
	if err := t.begin(ctx); err != nil {
		return err
	}
	for _, p := range group {
		if err := t.one(p); err != nil {
			return err
		}
	}
	if len(t.wrote) == 0 {
		return t.conn.rollback()
	}
	if err := t.put(sqlPut, "", string(local.AppendRevisions(nil, t.state.kinds))); err != nil {
		return err
	}
	fault.Point("sqlite.commit")
	// Readers can block this only without a log.
	return retry(ctx, func() error { return t.conn.exec("COMMIT") })
}

// begin takes the write lock first, so that what it reads is still true when it
// writes.
func (t *tx) begin(ctx context.Context) (err error) {
	if err := retry(ctx, func() error { return t.conn.exec("BEGIN IMMEDIATE") }); err != nil {
		return err
	}
	t.now = local.Clock()
	if err := t.store.catchUp(); err != nil {
		return err
	}
	t.version, t.state = t.store.version, t.store.known
	if err := t.store.behind(t.note, t.state); err != nil {
		return err
	}
	if t.note.of(t.state.kinds[idKey]) {
		t.state.rev = max(t.state.rev, t.note.rev) // the note is ahead only if Raise accepts that
	}
	if t.state.kinds[idKey] == 0 {
		t.state.kinds[idKey] = newID()
	}
	return nil
}

// one decides a batch and, if its guards hold, writes it.
func (t *tx) one(p *driver.Pending) error {
	if p.Err = p.Ctx.Err(); p.Err != nil {
		return nil
	}
	before, adds := t.state.rev, t.adds(p.Batch)
	holds, err := holdAll(p.Batch.Guards, t.state.kinds, t.look)
	if err == nil && holds {
		fault.Point("sqlite.guards")
		t.state.rev = max(t.state.rev+1, p.Batch.Floor)
		holds, err = t.add(adds)
	}
	if err != nil {
		return err
	}
	if !holds {
		for _, w := range adds {
			delete(t.seen, w.Key)
		}
		t.state.rev, p.Err = before, driver.ErrConflict
		return nil
	}
	p.Rev = t.state.rev
	for _, w := range p.Batch.Writes {
		wrote := absent
		if w.Value == nil {
			err = t.delete(w.Key)
		} else {
			wrote = &sighting{rev: t.state.rev, written: t.now, value: bytes.Clone(w.Value)}
			if !added(adds, w.Key) {
				err = t.put(sqlPut, w.Key, string(w.Value))
			}
		}
		if err != nil {
			return err
		}
		t.seen[w.Key] = wrote
		t.state.kinds[driver.Kind(w.Key)] = t.state.rev
		t.wrote = append(t.wrote, w.Key)
	}
	return nil
}

// adds returns the records that a batch writes if they do not exist, and that nobody
// has looked for. It takes them for absent: add finds out.
func (t *tx) adds(b driver.Batch) (adds []driver.Write) {
	for _, g := range b.Guards {
		if g.Rev != 0 || g.IsKind() || t.known(g.Key) != nil {
			continue
		}
		for _, w := range b.Writes {
			if w.Key == g.Key && w.Value != nil {
				t.seen[w.Key], adds = absent, append(adds, w)
			}
		}
	}
	return adds
}

// add writes records if none of them exists, and otherwise leaves all as they were.
func (t *tx) add(writes []driver.Write) (bool, error) {
	for i, w := range writes {
		if err := t.put(sqlAdd, w.Key, string(w.Value)); err != nil {
			return false, err
		}
		if t.conn.Changes() > 0 {
			continue
		}
		for _, w := range writes[:i] {
			if err := t.delete(w.Key); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	return true, nil
}

func added(adds []driver.Write, key string) bool {
	return slices.ContainsFunc(adds, func(w driver.Write) bool { return w.Key == key })
}

// look returns a record as of the batches so far.
func (t *tx) look(key string) (s *sighting, err error) {
	if s = t.known(key); s == nil {
		if s, err = t.conn.record(key); err != nil {
			return nil, err
		}
		t.seen[key] = s
	}
	return s, nil
}

// known is look without the database; nil: it does not know.
func (t *tx) known(key string) *sighting {
	s, ok := t.seen[key]
	if !ok {
		if s, ok = t.store.memory.exact(key, t.version); !ok {
			return nil
		}
		t.seen[key] = s
	}
	return s
}

func (t *tx) put(sql, key, value string) error {
	stmt, err := t.conn.Prepare(sql)
	if err != nil {
		return err
	}
	stmt.BindText(1, key)
	stmt.BindInt64(2, t.state.rev)
	stmt.BindInt64(3, t.now.Wall)
	stmt.BindInt64(4, t.now.Awake)
	stmt.BindText(5, t.now.Domain)
	stmt.BindText(6, value)
	_, err = stmt.Step()
	return err
}

func (t *tx) delete(key string) error {
	stmt, err := t.conn.Prepare(sqlDelete)
	if err != nil {
		return err
	}
	stmt.BindText(1, key)
	_, err = stmt.Step()
	return err
}
