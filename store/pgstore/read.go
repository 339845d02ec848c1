package pgstore

import (
	"context"
	enc "encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tasklock/tasklock/store/driver"
)

// One statement sees one state of the database, so a query is one statement. Its
// first row is the store's own; then come the records of $1, and those of each
// range in $2, $3, $4: from, below, limit. The first column is 0 for a key, else
// the number of the range.
const (
	sqlRead = `SELECT 0::bigint, ''::text, rev, clock_timestamp(), NULL::json FROM @.state
UNION ALL SELECT 0, key, rev, time, value FROM @.record WHERE key = ANY ($1::text[])`
	sqlRanges = `
UNION ALL SELECT q.n, r.key, r.rev, r.time, r.value
FROM unnest($2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY q(low, high, most, n), LATERAL (
  (SELECT * FROM @.record WHERE q.most >= 0 AND key >= q.low AND key < q.high ORDER BY key LIMIT nullif(greatest(q.most, 0), 0))
  UNION ALL
  (SELECT * FROM @.record WHERE q.most < 0 AND key >= q.low AND key < q.high ORDER BY key DESC LIMIT greatest(-q.most, 0))
) r`
	sqlGuards = `SELECT ''::text, rev, kinds::text FROM @.state
UNION ALL SELECT key, rev, NULL FROM @.record WHERE key = ANY ($1::text[])`
)

// top sorts after every key there can be.
var top = strings.Repeat(string(utf8.MaxRune), driver.MaxKey/utf8.UTFMax+1)

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
	sql, params := s.names.read, [][]byte{textArray(q.Keys)}
	if len(q.Ranges) > 0 {
		sql, params = s.names.scan, append(params, bounds(q.Ranges)...)
	}
	var got *answer
	err = s.ask(ctx, func(ctx context.Context, c *conn) error {
		got = newAnswer(q)
		return c.query(ctx, sql, params, got.row)
	})
	if err == nil {
		err = got.whole(s)
	}
	if err != nil {
		return driver.Snapshot{}, s.life.Ended(ctx, err)
	}
	return got.snapshot(), nil
}

// ask runs f on a connection, and once more on a new one if the first was
// closed while it rested. f must only read.
func (s *Store) ask(ctx context.Context, f func(context.Context, *conn) error) error {
	ctx, stop := s.limited(ctx)
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
	q      driver.Query
	state  int // rows of the table state
	rev    int64
	now    time.Time
	found  map[string]driver.Record
	ranges [][]driver.Record
	odd    string // what is not as we write it
}

func newAnswer(q driver.Query) *answer {
	return &answer{q: q, found: make(map[string]driver.Record, len(q.Keys)), ranges: make([][]driver.Record, len(q.Ranges))}
}

func (a *answer) row(v [][]byte) error {
	if len(v) != 5 || len(v[0]) != 8 || len(v[2]) != 8 || len(v[3]) != 8 {
		return errors.New("the server's answer has not the form that was asked for")
	}
	n, key, rev, at := integer(v[0]), string(v[1]), integer(v[2]), moment(v[3])
	if key == "" {
		a.state++
		a.rev, a.now = rev, at
		return nil
	}
	r := driver.Record{Key: key, Rev: rev, Time: at, Value: slices.Clone(v[4])}
	if value := strings.TrimLeft(string(r.Value[:min(len(r.Value), 64)]), " \t\r\n"); !strings.HasPrefix(value, "{") {
		a.odd = "record " + key + " is not a JSON object"
	}
	if n == 0 {
		a.found[key] = r
	} else {
		a.ranges[n-1] = append(a.ranges[n-1], r)
	}
	return nil
}

// whole refuses what we would not have written.
func (a *answer) whole(s *Store) error {
	if a.state != 1 {
		a.odd = fmt.Sprintf("the table state has %d rows, not one", a.state)
	}
	if a.odd != "" {
		return s.damaged(a.odd)
	}
	check := func(r driver.Record) error {
		if r.Rev > a.rev || r.Rev < 1 {
			return s.damaged(fmt.Sprintf("record %s is at revision %d and the store at %d", r.Key, r.Rev, a.rev))
		}
		return nil
	}
	for _, r := range a.found {
		if err := check(r); err != nil {
			return err
		}
	}
	for _, records := range a.ranges {
		for _, r := range records {
			if err := check(r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) damaged(what string) error {
	return fmt.Errorf("%w: %s: %s; restore it from a backup", driver.ErrDamaged, s.where, what)
}

func (a *answer) snapshot() driver.Snapshot {
	snap := driver.Snapshot{Rev: a.rev, Now: a.now}
	for _, key := range a.q.Keys {
		if r, ok := a.found[key]; ok {
			r.Value = slices.Clone(r.Value) // a key may be asked for twice
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
	var found map[string]int64
	var kinds string
	err = s.ask(ctx, func(ctx context.Context, c *conn) error {
		found = map[string]int64{}
		return c.query(ctx, s.names.guards, [][]byte{textArray(keys)}, func(row [][]byte) error {
			if len(row) != 3 || len(row[1]) != 8 {
				return errors.New("the server's answer has not the form that was asked for")
			}
			found[string(row[0])] = integer(row[1])
			if len(row[0]) == 0 {
				kinds = string(row[2])
			}
			return nil
		})
	})
	if err != nil {
		return false, 0, err
	}
	last, err := parseKinds(kinds)
	if err != nil {
		return false, 0, s.damaged("the table state: " + err.Error())
	}
	for _, g := range guards {
		if g.IsKind() && last[g.Key] > g.Rev || !g.IsKind() && found[g.Key] != g.Rev {
			return false, found[""], nil
		}
	}
	return true, found[""], nil
}

// bounds are the parameters of ranges.
func bounds(ranges []driver.Range) [][]byte {
	low, high, most := make([]string, len(ranges)), make([]string, len(ranges)), make([]int64, len(ranges))
	for i, r := range ranges {
		low[i], high[i], most[i] = r.Prefix, after(r.Prefix), int64(r.Limit)
	}
	return [][]byte{textArray(low), textArray(high), numberArray(most)}
}

// after is the least text that sorts after all that begin with prefix.
func after(prefix string) string {
	for prefix != "" {
		r, n := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-n]
		switch {
		case r == utf8.MaxRune:
			continue
		case r == 0xD7FF: // surrogates are no text
			return prefix + "\uE000"
		}
		return prefix + string(r+1)
	}
	return top
}

func integer(b []byte) int64 { return int64(enc.BigEndian.Uint64(b)) }

// moment reads a timestamptz: microseconds since the year 2000.
func moment(b []byte) time.Time {
	const y2k = 946684800_000_000
	return time.UnixMicro(integer(b) + y2k).UTC()
}

// textArray writes an array as PostgreSQL reads it.
func textArray(items []string) []byte {
	b := []byte{'{'}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuoted(b, item)
	}
	return append(b, '}')
}

func appendQuoted(b []byte, item string) []byte {
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
