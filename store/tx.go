package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// Pending is the Rev of an entry that this transaction has written itself.
const Pending = -1

// errMissing stops a transaction function that asked for a record that was not
// read. Update and View fetch it and run the function again.
var errMissing = errors.New("record not read yet")

// A Tx is one run of a transaction function over one snapshot.
type Tx struct {
	snap    driver.Snapshot
	known   map[string]driver.Record // by key; Rev 0: known to be absent
	ranges  map[driver.Range][]driver.Record
	missing driver.Query
	decoded map[string]any // entries that callers can share, by key

	guards  map[string]int64
	peeked  []string // read without a guard, see Peek and RevOf; some may have one since
	view    bool     // nothing will be committed
	writes  map[string]driver.Write
	order   []string // of writes
	floor   int64
	notes   []string
	receipt string
	raised  int       // the format that it gives the store, if another, see Need
	began   time.Time // see Began
	affirm  bool      // see Affirm
	after   func(context.Context, Applied)
}

func newTx(snap driver.Snapshot, q driver.Query) *Tx {
	tx := &Tx{
		snap:   snap,
		known:  make(map[string]driver.Record, len(q.Keys)+len(snap.Records)),
		ranges: make(map[driver.Range][]driver.Record, len(q.Ranges)),
		guards: map[string]int64{},
		writes: map[string]driver.Write{},
	}
	for _, k := range q.Keys {
		tx.known[k] = driver.Record{Key: k}
	}
	for _, r := range snap.Records {
		tx.known[r.Key] = r
	}
	for _, r := range q.Ranges {
		tx.ranges[r] = within(snap.Records, r)
	}
	return tx
}

// within picks the records of one range from those of the whole query.
func within(records []driver.Record, r driver.Range) []driver.Record {
	var in []driver.Record
	seen := map[string]bool{}
	for _, rec := range records {
		if r.Selects(rec.Key) && rec.Rev > r.Since && !seen[rec.Key] {
			seen[rec.Key] = true
			in = append(in, rec)
		}
	}
	slices.SortFunc(in, byKey)
	switch {
	case r.Limit > 0:
		return in[:min(len(in), r.Limit)]
	case r.Limit < 0:
		return in[max(0, len(in)+r.Limit):]
	}
	return in
}

func byKey(a, b driver.Record) int { return strings.Compare(a.Key, b.Key) }

// Now is the store's clock at the snapshot: one time for the whole transaction.
func (tx *Tx) Now() time.Time { return tx.snap.Now }

// Began is the store's clock at the first run of this Update or View: one time for
// all of its runs. Use it for a time that becomes part of a key, or decides which
// records are asked for. Use Now to judge what has expired.
func (tx *Tx) Began() time.Time { return tx.began }

// Rev is the newest revision of the snapshot.
func (tx *Tx) Rev() int64 { return tx.snap.Rev }

// An Entry is a record with its value decoded.
type Entry[T any] struct {
	Key   string
	Rev   int64         // 0: absent; Pending: written by this transaction
	Age   time.Duration // since it was written, by the store's clock
	Time  time.Time     // when it was written
	Value T
}

// Exists reports whether the record exists.
func (e Entry[T]) Exists() bool { return e.Rev != 0 }

// Get returns the record of that key and guards it: the transaction commits
// only if the record is still the same. An absent record has Rev 0.
func Get[T any](tx *Tx, key string) (Entry[T], error) {
	if w, ok := tx.writes[key]; ok {
		e := Entry[T]{Key: key}
		if w.Value == nil {
			return e, nil
		}
		e.Rev, e.Time = Pending, tx.snap.Now
		return e, decode(key, w.Value, &e.Value)
	}
	rec, ok := tx.known[key]
	if !ok {
		tx.miss(key)
		return Entry[T]{}, errMissing
	}
	tx.guards[key] = rec.Rev
	if e, ok := tx.decoded[key].(Entry[T]); ok {
		return e, nil
	}
	e, err := Decode[T](tx, rec)
	if err == nil && e.Exists() && reflect.TypeFor[T]().Comparable() { // no slice, no map: nobody can change it for others
		if tx.decoded == nil {
			tx.decoded = map[string]any{}
		}
		tx.decoded[key] = e
	}
	return e, err
}

// RevOf returns the revision of a record, 0 if it is absent. It guards nothing.
func (tx *Tx) RevOf(key string) (int64, error) {
	if w, ok := tx.writes[key]; ok {
		if w.Value == nil {
			return 0, nil
		}
		return Pending, nil
	}
	rec, ok := tx.known[key]
	if !ok {
		tx.miss(key)
		return 0, errMissing
	}
	tx.peeked = append(tx.peeked, key)
	return rec.Rev, nil
}

// Peek is Get without a guard: for records that others may change without making
// the transaction wrong. The number of guards is limited, see [Tx.Room].
func Peek[T any](tx *Tx, key string) (Entry[T], error) {
	rev, guarded := tx.guards[key]
	e, err := Get[T](tx, key)
	if guarded {
		tx.guards[key] = rev
	} else {
		delete(tx.guards, key)
		tx.peeked = append(tx.peeked, key)
	}
	return e, err
}

// Hint is Peek of a record that only helps to choose others, which the transaction
// then guards: it is right whatever the hint says, even if that is old.
func Hint[T any](tx *Tx, key string) (Entry[T], error) {
	peeked := len(tx.peeked)
	e, err := Peek[T](tx, key)
	tx.peeked = tx.peeked[:peeked]
	return e, err
}

// proven reports whether the guards cover everything that the transaction read: then
// a commit shows that all of it is still true.
func (tx *Tx) proven() bool {
	return !slices.ContainsFunc(tx.peeked, func(key string) bool {
		_, guarded := tx.guards[key]
		return !guarded
	})
}

// Room is how many more records the transaction can guard individually. Below 0,
// guards become one of their whole kind, which any change of that kind breaks:
// under traffic such a commit may never succeed. A View has room for all.
func (tx *Tx) Room() int {
	const own = 2 // meta/store and the receipt
	if tx.view {
		return driver.MaxWrites
	}
	return driver.MaxGuards - own - len(tx.guards)
}

// Decode turns a record, of Scan for example, into an entry.
func Decode[T any](tx *Tx, rec driver.Record) (Entry[T], error) { return DecodeAt[T](tx.snap.Now, rec) }

// DecodeAt is Decode outside of a transaction, at a time by the store's clock.
func DecodeAt[T any](now time.Time, rec driver.Record) (Entry[T], error) {
	e := Entry[T]{Key: rec.Key, Rev: rec.Rev}
	if rec.Rev == 0 {
		return e, nil
	}
	e.Time, e.Age = rec.Time, now.Sub(rec.Time)
	if err := decode(rec.Key, rec.Value, &e.Value); err != nil {
		return e, err
	}
	if v, ok := any(&e.Value).(Checker); ok {
		if err := v.Check(rec.Key); err != nil {
			return e, &RecordError{Key: rec.Key, Err: err}
		}
	}
	return e, nil
}

// A Checker is a value that knows what it must hold under its key. A well-formed
// record without meaning is as damaged as a malformed one.
type Checker interface{ Check(key string) error }

// Want makes sure that the keys are read, so that the Gets that follow cost one
// further read together.
func (tx *Tx) Want(keys ...string) error {
	var err error
	for _, k := range keys {
		if _, ok := tx.known[k]; !ok && tx.writes[k].Key == "" {
			tx.miss(k)
			err = errMissing
		}
	}
	return err
}

func (tx *Tx) miss(key string) {
	if !slices.Contains(tx.missing.Keys, key) {
		tx.missing.Keys = append(tx.missing.Keys, key)
	}
}

// Scan returns the records of a prefix in key order: the first limit, the last
// -limit, or with 0 all of them. It guards nothing and does not show what this
// transaction has written.
func (tx *Tx) Scan(prefix string, limit int) ([]driver.Record, error) {
	return tx.Range(driver.Range{Prefix: prefix, Limit: limit})
}

// ScanSince is Scan of those records of a prefix that were written after a revision:
// for a caller that remembers the others. It does not show which were deleted.
func (tx *Tx) ScanSince(prefix string, rev int64) ([]driver.Record, error) {
	return tx.Range(driver.Range{Prefix: prefix, Since: rev})
}

// Range is Scan of any range: of a page that begins after a key, for example.
func (tx *Tx) Range(r driver.Range) ([]driver.Record, error) {
	recs, ok := tx.ranges[r]
	if !ok {
		tx.missing.Ranges = append(tx.missing.Ranges, r)
		return nil, errMissing
	}
	return recs, nil
}

// ScanWritten is Scan that includes what this transaction has written. limit
// must not be negative.
func (tx *Tx) ScanWritten(prefix string, limit int) ([]driver.Record, error) {
	var mine []driver.Record
	gone := 0
	for key, w := range tx.writes {
		switch {
		case !strings.HasPrefix(key, prefix):
		case w.Value == nil:
			gone++
		default:
			mine = append(mine, driver.Record{Key: key, Rev: Pending, Value: w.Value, Time: tx.snap.Now})
		}
	}
	if gone+len(mine) == 0 {
		return tx.Scan(prefix, limit)
	}
	ask := limit
	if limit > 0 {
		ask += gone
	}
	there, err := tx.Scan(prefix, ask)
	if err != nil {
		return nil, err
	}
	for _, rec := range there {
		if _, written := tx.writes[rec.Key]; !written {
			mine = append(mine, rec)
		}
	}
	slices.SortFunc(mine, byKey)
	if limit > 0 && len(mine) > limit {
		mine = mine[:limit]
	}
	return mine, nil
}

// All is Scan of a whole prefix, decoded. One unreadable record is an error for
// all of them.
func All[T any](tx *Tx, prefix string) ([]Entry[T], error) {
	recs, err := tx.Scan(prefix, 0)
	if err != nil {
		return nil, err
	}
	out := make([]Entry[T], len(recs))
	for i, rec := range recs {
		if out[i], err = Decode[T](tx, rec); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// GuardKind makes the commit depend on no record of the kind ("path/") having
// been written or deleted since the snapshot: for rules about absence.
func (tx *Tx) GuardKind(kind string) { tx.guards[kind] = tx.snap.Rev }

// GuardsKind reports whether the commit depends on that.
func (tx *Tx) GuardsKind(kind string) bool {
	_, ok := tx.guards[kind]
	return ok
}

// Put writes a record. value must encode to a JSON object.
func (tx *Tx) Put(key string, value any) error { return tx.PutTTL(key, value, 0) }

// PutTTL writes a record that expires when it is older than ttl.
func (tx *Tx) PutTTL(key string, value any, ttl time.Duration) error {
	data, err := Encode(key, value)
	if err != nil {
		return err
	}
	tx.write(driver.Write{Key: key, Value: data, TTL: ttl})
	return nil
}

// Encode returns a value as it is stored.
func Encode(key string, value any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return nil, fmt.Errorf("record %q: %w", key, err)
	}
	return bytes.TrimSpace(buf.Bytes()), nil
}

// Delete deletes a record.
func (tx *Tx) Delete(key string) { tx.write(driver.Write{Key: key}) }

func (tx *Tx) write(w driver.Write) {
	if _, ok := tx.writes[w.Key]; !ok {
		tx.order = append(tx.order, w.Key)
	}
	tx.writes[w.Key] = w
}

// Len is how many records this transaction has written: it orders them.
func (tx *Tx) Len() int { return len(tx.order) }

// Floor makes the revision of the commit at least rev.
func (tx *Tx) Floor(rev int64) { tx.floor = max(tx.floor, rev) }

// Note tells people what the commit does, if the store can show it.
func (tx *Tx) Note(text string) { tx.notes = append(tx.notes, text) }

// Receipt names a written record whose key belongs to this run alone (it has a
// random part). If the reply to the commit is lost, finding the record proves
// that the commit was applied. To make sure that it never will be, Update writes
// {"void":true} in its place: readers of that kind skip it. The first one named
// counts.
func (tx *Tx) Receipt(key string) {
	if tx.receipt == "" {
		tx.receipt = key
	}
}

// Affirm is for a View that answers "yours" or hands on what it has read. It makes
// sure that what was read and guarded lasts, on a store that can show what it may
// lose again. An Update that writes nothing needs no Affirm: it answers "done".
func (tx *Tx) Affirm() { tx.affirm = true }

// Applied describes a committed transaction.
type Applied struct {
	Store   *Store
	Rev     int64
	Written map[string]int // how many records, by kind
}

// After lets fn run once, after this run was committed and before Update
// returns: for work that may follow a commit and must not be part of it. Update
// ignores its failure. The last function counts.
func (tx *Tx) After(fn func(context.Context, Applied)) { tx.after = fn }

func (tx *Tx) applied(ctx context.Context, s *Store, rev int64) {
	if tx.after == nil || ctx.Err() != nil {
		return
	}
	a := Applied{Store: s, Rev: rev, Written: map[string]int{}}
	for _, k := range tx.order {
		a.Written[driver.Kind(k)]++
	}
	tx.after(ctx, a)
}

// batch turns the transaction into a value for the driver.
func (tx *Tx) batch() (driver.Batch, error) {
	b := driver.Batch{Floor: tx.floor, Note: strings.Join(tx.notes, "; ")}
	if tx.known[metaKey].Rev == 0 {
		if err := tx.initMeta(); err != nil {
			return b, err
		}
	}
	tx.guards[metaKey] = tx.known[metaKey].Rev
	if tx.receipt != "" {
		tx.guards[tx.receipt] = 0
	}
	for _, k := range tx.order {
		b.Writes = append(b.Writes, tx.writes[k])
	}
	b.Guards = tx.fold()
	return b, nil
}

// fold returns the guards in key order. If there are more than a driver takes,
// those of the largest kinds become one guard of the whole kind, which asks for
// more and so is as safe.
func (tx *Tx) fold() []driver.Guard {
	for len(tx.guards) > driver.MaxGuards {
		count := map[string]int{}
		largest := ""
		for k := range tx.guards {
			kind := driver.Kind(k)
			if count[kind]++; count[kind] > count[largest] || largest == "" {
				largest = kind
			}
		}
		for k := range tx.guards {
			if driver.Kind(k) == largest {
				delete(tx.guards, k)
			}
		}
		tx.guards[largest] = tx.snap.Rev
	}
	guards := make([]driver.Guard, 0, len(tx.guards))
	for k, rev := range tx.guards {
		guards = append(guards, driver.Guard{Key: k, Rev: rev})
	}
	slices.SortFunc(guards, func(a, b driver.Guard) int { return strings.Compare(a.Key, b.Key) })
	return guards
}

// decode reads a stored value. An unreadable value is damage, never absence.
func decode(key string, value []byte, into any) error {
	err := json.Unmarshal(value, into)
	if err == nil && !bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
		err = errors.New("not a JSON object")
	}
	if err != nil {
		return &RecordError{Key: key, Err: err}
	}
	return nil
}

// newID returns 96 random bits as text that is safe in every key.
func newID() string { return strings.ToLower(rand.Text()[:20]) }
