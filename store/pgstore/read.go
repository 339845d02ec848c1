package pgstore

import (
	"bytes"
	"context"
	enc "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

// One statement sees one state of the database, so a query is one statement:
// the records of $1, which has the empty key of the store's own row, and those of
// each range in $2 to $5: from, below, limit, revision above which they are. The first column is 0 for a key,
// else the number of the range. The statement may be prepared, without a
// search_path of its own, so every operator and function names the server's: see
// trusted.
const (
	sqlRead = `SELECT 0::bigint, key, rev, time, value, pg_catalog.clock_timestamp(),
  CASE WHEN key OPERATOR(pg_catalog.<>) '' OR pg_catalog.pg_is_in_recovery() THEN false
    WHEN pg_catalog.current_setting('synchronous_standby_names') OPERATOR(pg_catalog.<>) '' THEN true
    ELSE pg_catalog.pg_current_wal_flush_lsn() OPERATOR(pg_catalog.<) pg_catalog.pg_current_wal_insert_lsn() END
FROM @.record WHERE key OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.text[])`
	sqlRanges = `
UNION ALL SELECT q.n, r.key, r.rev, r.time, r.value, NULL, NULL
FROM ROWS FROM (pg_catalog.unnest($2::pg_catalog.text[]), pg_catalog.unnest($3::pg_catalog.text[]), pg_catalog.unnest($4::bigint[]), pg_catalog.unnest($5::bigint[]))
  WITH ORDINALITY q(low, high, most, since, n), LATERAL (
  (SELECT * FROM @.record WHERE q.most OPERATOR(pg_catalog.>=) 0 AND key OPERATOR(pg_catalog.>=) q.low AND key OPERATOR(pg_catalog.<) q.high
    AND rev OPERATOR(pg_catalog.>) q.since ORDER BY key LIMIT CASE WHEN q.most OPERATOR(pg_catalog.>) 0 THEN q.most END)
  UNION ALL
  (SELECT * FROM @.record WHERE q.most OPERATOR(pg_catalog.<) 0 AND key OPERATOR(pg_catalog.>=) q.low AND key OPERATOR(pg_catalog.<) q.high
    ORDER BY key DESC LIMIT CASE WHEN q.most OPERATOR(pg_catalog.<) 0 THEN OPERATOR(pg_catalog.-) q.most ELSE 0 END)
) r`
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
		return snap, nil
	}
	var got *answer
	if len(q.Ranges) == 0 {
		got, err = s.readers.read(ctx, q.Keys)
	} else {
		got, err = s.read(ctx, q)
	}
	if err != nil {
		return driver.Snapshot{}, s.life.Ended(ctx, err)
	}
	if !q.Poll { // so many would displace what is about to be written
		got.remember(&s.memory, q.Keys)
	}
	return got.snapshot(q), nil
}

// read asks the server.
func (s *Store) read(ctx context.Context, q driver.Query) (*answer, error) {
	keys := append([]string{""}, q.Keys...)
	sql, params := s.names.read, [][]byte{textArray(keys)}
	if len(q.Ranges) > 0 {
		sql, params = s.names.scan, append(params, bounds(q.Ranges)...)
	}
	var got *answer
	err := s.ask(ctx, func(ctx context.Context, c *conn) error {
		got = newAnswer(q)
		return c.query(ctx, sql, params, got.row)
	})
	if err == nil {
		err, got.unsure = got.whole(s), got.loose && got.rev > s.acked.Load()
	}
	return got, err
}

// ask runs f on a connection, and once more on a new one if the first was
// closed while it rested. f must only read.
func (s *Store) ask(ctx context.Context, f func(context.Context, *conn) error) error {
	ctx, stop := s.limited(ctx, reading)
	defer stop()
	for {
		c, err := s.pool.get(ctx, false)
		if err != nil {
			return s.explain(err)
		}
		again := c.rested
		err = f(ctx, c)
		again = again && err != nil && c.pg.IsClosed() && ctx.Err() == nil
		s.pool.put(c)
		if !again {
			return s.explain(err)
		}
	}
}

// An answer collects the rows of a query.
type answer struct {
	rev    int64 // of the store; -1 until its row has come
	now    time.Time
	asked  host.Moment
	state  []byte
	found  map[string]driver.Record
	ranges [][]driver.Record
	odd    string // what is not as we write it
	loose  bool   // not all that the server shows is synced, or it has a standby to wait for
	unsure bool   // see driver.Snapshot
}

func newAnswer(q driver.Query) *answer {
	return &answer{rev: -1, asked: host.Now(), found: make(map[string]driver.Record, len(q.Keys)), ranges: make([][]driver.Record, len(q.Ranges))}
}

func (a *answer) row(v [][]byte) error {
	if len(v) != 7 || len(v[0]) != 8 || len(v[2]) != 8 || len(v[3]) != 8 {
		return errors.New("the server's answer has not the form that was asked for")
	}
	n, rev := integer(v[0]), integer(v[2])
	if len(v[1]) == 0 {
		a.rev, a.now, a.state = rev, moment(v[5]), slices.Clone(v[4])
		a.loose = len(v[6]) == 1 && v[6][0] == 1
		return nil
	}
	r := driver.Record{Key: string(v[1]), Rev: rev, Time: moment(v[3]), Value: slices.Clone(v[4])}
	if !object(r.Value) {
		a.odd = "record " + r.Key + " is not a JSON object"
	}
	if n == 0 {
		a.found[r.Key] = r
	} else {
		a.ranges[n-1] = append(a.ranges[n-1], r)
	}
	return nil
}

// object reports whether a value, which the server knows to be JSON, is an
// object.
func object(value []byte) bool {
	value = bytes.TrimLeft(value, " \t\r\n")
	return len(value) > 0 && value[0] == '{'
}

// whole refuses rows that we would not have written.
func (a *answer) whole(s *Store) error {
	switch {
	case a.rev < 0:
		return s.damaged("the row with the empty key is missing")
	case a.odd != "":
		return s.damaged(a.odd)
	}
	for _, r := range a.found {
		if err := s.plausible(r, a.rev); err != nil {
			return err
		}
	}
	for _, records := range a.ranges {
		for _, r := range records {
			if err := s.plausible(r, a.rev); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) plausible(r driver.Record, rev int64) error {
	if r.Rev > rev || r.Rev < 1 {
		return s.damaged(fmt.Sprintf("record %s is at revision %d and the store at %d", r.Key, r.Rev, rev))
	}
	return nil
}

func (s *Store) damaged(what string) error {
	return fmt.Errorf("%w: %s: %s; restore it from a backup", driver.ErrDamaged, s.where, what)
}

// remember notes what the answer says of some records.
func (a *answer) remember(m *memory, keys []string) {
	var state struct{ Life, Line int64 }
	if json.Unmarshal(a.state, &state) != nil { // whoever uses it says so
		return
	}
	v := view{rev: a.rev, now: a.now, life: state.Life, line: state.Line, asked: a.asked}
	m.heard(v)
	for _, key := range keys {
		r := a.found[key]
		r.Key = key
		m.note(r, v)
	}
}

// snapshot is the part of the answer for one query; others may share the answer.
func (a *answer) snapshot(q driver.Query) driver.Snapshot {
	snap := driver.Snapshot{Rev: a.rev, Now: a.now, Unsure: a.unsure}
	for _, key := range q.Keys {
		if r, ok := a.found[key]; ok {
			r.Value = slices.Clone(r.Value)
			snap.Records = append(snap.Records, r)
		}
	}
	for _, records := range a.ranges {
		slices.SortFunc(records, func(x, y driver.Record) int { return strings.Compare(x.Key, y.Key) })
		snap.Records = append(snap.Records, records...)
	}
	return snap
}

// holding reports whether all guards hold, and at which revision it looked.
func (s *Store) holding(ctx context.Context, guards []driver.Guard) (holds bool, rev int64, err error) {
	var keys []string
	for _, g := range guards {
		if !g.IsKind() {
			keys = append(keys, g.Key)
		}
	}
	got, err := s.readers.read(ctx, keys)
	if err != nil {
		return false, 0, err
	}
	var state struct{ Kinds map[string]int64 }
	if len(keys) < len(guards) {
		if err := json.Unmarshal(got.state, &state); err != nil {
			return false, 0, s.damaged("the row with the empty key: " + err.Error())
		}
	}
	for _, g := range guards {
		if g.IsKind() && state.Kinds[g.Key] > g.Rev || !g.IsKind() && got.found[g.Key].Rev != g.Rev {
			return false, got.rev, nil
		}
	}
	return true, got.rev, nil
}

// bounds are the parameters of ranges.
func bounds(ranges []driver.Range) [][]byte {
	low, high, most, since := make([]string, len(ranges)), make([]string, len(ranges)), make([]int64, len(ranges)), make([]int64, len(ranges))
	for i, r := range ranges {
		low[i], high[i], most[i] = r.From(), after(r.Prefix), int64(r.Limit)
		if r.Limit == 0 {
			since[i] = r.Since
		}
	}
	return [][]byte{textArray(low), textArray(high), numberArray(most), numberArray(since)}
}

// after is the least text that sorts after all that begin with prefix.
func after(prefix string) string {
	for prefix != "" {
		r, n := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-n]
		switch {
		case r == utf8.MaxRune:
			continue
		case r == 0xD7FF: // surrogates are not text
			return prefix + "\uE000"
		}
		return prefix + string(r+1)
	}
	return strings.Repeat(string(utf8.MaxRune), driver.MaxKey/utf8.UTFMax+1) // after every possible key
}

func integer(b []byte) int64 { return int64(enc.BigEndian.Uint64(b)) }

// moment reads a timestamptz: microseconds since the year 2000.
func moment(b []byte) time.Time {
	const y2k = 946684800_000_000
	return time.UnixMicro(integer(b) + y2k).UTC()
}

// textArray writes an array as PostgreSQL reads it.
func textArray[T string | []byte](items []T) []byte {
	b := []byte{'{'}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuoted(b, item)
	}
	return append(b, '}')
}

func appendQuoted[T string | []byte](b []byte, item T) []byte {
	b = append(b, '"')
	for i := range len(item) {
		if item[i] == '"' || item[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, item[i])
	}
	return append(b, '"')
}

func numberArray[N int | int64](items []N) []byte {
	b := []byte{'{'}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(item), 10)
	}
	return append(b, '}')
}
