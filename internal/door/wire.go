// Package door is the driver contract over HTTP: what goes over the wire, and the
// handler that serves a store to its peers. Package httpstore is the other end.
//
// A call is one POST with a JSON object. Keys and values travel as base64, so that
// each byte arrives as it was. A read answers one line for the snapshot and one for
// each record, so that neither side has to hold a large answer twice; the first
// line says how many follow, so that a shortened answer is noticed.
//
// An answer of the store has status 200 and the header [Door], also if it is an error:
// there are proxies that repeat a request after a 409 or a 503, and nobody may repeat
// a commit. Anything else comes from something in front of the store. [Untouched]
// marks those answers that prove that the store was not asked.
//
// Both sides refuse fields that they do not know: a newer client may rely on them.
package door

import (
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// The paths of the calls.
const (
	ReadPath   = "/v1/store/read"
	CommitPath = "/v1/store/commit"
	WaitPath   = "/v1/store/wait"
)

// Headers of answers.
const (
	// Door is on every answer of the store. Without it, {} would look like an empty
	// store.
	Door    = "Tasklock-Door"
	Version = "1" // its value
	// Untouched is on answers of the server that are not the store's: the store was
	// not asked, so nothing was changed. Whoever refuses a request in front of the
	// handler sets it.
	Untouched = "Tasklock-Untouched"
)

// MaxBody is how many bytes a request may have. The largest batch needs less than
// two thirds of it.
const MaxBody = 4 << 20

// MaxWait is how long a wait may take before it answers that nothing has changed.
// Many balancers cut a request after 30 seconds.
const MaxWait = 25 * time.Second

// A Query is a [driver.Query].
type Query struct {
	Keys    [][]byte `json:"keys,omitempty"`
	Ranges  []Range  `json:"ranges,omitempty"`
	Since   int64    `json:"since,omitempty"`
	Guarded bool     `json:"guarded,omitempty"`
	New     [][]byte `json:"new,omitempty"`
	Poll    bool     `json:"poll,omitempty"`
}

// A Range is a [driver.Range].
type Range struct {
	Prefix []byte `json:"prefix,omitempty"`
	After  []byte `json:"after,omitempty"`
	Limit  int    `json:"limit,omitempty"`
	Since  int64  `json:"since,omitempty"`
}

// Asks is a query as it goes over the wire.
func Asks(q driver.Query) Query {
	return Query{Keys: bytesOf(q.Keys), Ranges: list(q.Ranges, sendRange), Since: q.Since, Guarded: q.Guarded, New: bytesOf(q.New), Poll: q.Poll}
}

func (q Query) driver() driver.Query {
	return driver.Query{Keys: textOf(q.Keys), Ranges: list(q.Ranges, Range.driver), Since: q.Since, Guarded: q.Guarded, New: textOf(q.New), Poll: q.Poll}
}

func sendRange(r driver.Range) Range {
	return Range{Prefix: []byte(r.Prefix), After: []byte(r.After), Limit: r.Limit, Since: r.Since}
}

func (r Range) driver() driver.Range {
	return driver.Range{Prefix: string(r.Prefix), After: string(r.After), Limit: r.Limit, Since: r.Since}
}

// A Snapshot is the first line of the answer to a query: a [driver.Snapshot]
// without its records, or an error.
type Snapshot struct {
	Rev     int64    `json:"rev"`
	Now     int64    `json:"now,omitempty"` // nanoseconds since 1970
	Old     bool     `json:"old,omitempty"`
	Unsure  bool     `json:"unsure,omitempty"`
	Records int      `json:"records,omitempty"` // how many lines follow
	Problem *Problem `json:"problem,omitempty"`
}

func sendSnapshot(s driver.Snapshot) Snapshot {
	return Snapshot{Rev: s.Rev, Now: s.Now.UnixNano(), Old: s.Old, Unsure: s.Unsure, Records: len(s.Records)}
}

// Driver is the snapshot, still without records.
func (s Snapshot) Driver() driver.Snapshot {
	return driver.Snapshot{Rev: s.Rev, Now: time.Unix(0, s.Now), Old: s.Old, Unsure: s.Unsure}
}

// A Record is a [driver.Record]. It has its age in place of its time: the store may
// have measured that with a clock that the time of day does not move.
type Record struct {
	Key   []byte        `json:"key"`
	Rev   int64         `json:"rev"`
	Age   time.Duration `json:"age"`
	Value []byte        `json:"value"`
}

func sendRecord(r driver.Record, now time.Time) Record {
	return Record{Key: []byte(r.Key), Rev: r.Rev, Age: now.Sub(r.Time), Value: r.Value}
}

// Driver is the record in a snapshot of that time.
func (r Record) Driver(now time.Time) driver.Record {
	return driver.Record{Key: string(r.Key), Rev: r.Rev, Time: now.Add(-r.Age), Value: r.Value}
}

// A Batch is a [driver.Batch].
type Batch struct {
	Guards []Guard `json:"guards,omitempty"`
	Writes []Write `json:"writes,omitempty"`
	Floor  int64   `json:"floor,omitempty"`
	Note   []byte  `json:"note,omitempty"`
}

// A Guard is a [driver.Guard].
type Guard struct {
	Key []byte `json:"key"`
	Rev int64  `json:"rev,omitempty"`
}

// A Write is a [driver.Write]. It has a value or says that it deletes.
type Write struct {
	Key    []byte        `json:"key"`
	Value  []byte        `json:"value,omitempty"`
	Delete bool          `json:"delete,omitempty"`
	TTL    time.Duration `json:"ttl,omitempty"`
}

// Sends is a batch as it goes over the wire.
func Sends(b driver.Batch) Batch {
	return Batch{Guards: list(b.Guards, sendGuard), Writes: list(b.Writes, sendWrite), Floor: b.Floor, Note: []byte(b.Note)}
}

func (b Batch) driver() driver.Batch {
	return driver.Batch{Guards: list(b.Guards, Guard.driver), Writes: list(b.Writes, Write.driver), Floor: b.Floor, Note: string(b.Note)}
}

func sendGuard(g driver.Guard) Guard { return Guard{Key: []byte(g.Key), Rev: g.Rev} }

func (g Guard) driver() driver.Guard { return driver.Guard{Key: string(g.Key), Rev: g.Rev} }

func sendWrite(w driver.Write) Write {
	return Write{Key: []byte(w.Key), Value: w.Value, Delete: w.Value == nil, TTL: w.TTL}
}

func (w Write) driver() driver.Write {
	out := driver.Write{Key: string(w.Key), Value: w.Value, TTL: w.TTL}
	if !w.Delete && out.Value == nil { // an empty value is not a deletion
		out.Value = []byte{}
	}
	return out
}

// Committed is the answer to a batch.
type Committed struct {
	Rev     int64    `json:"rev,omitempty"`
	Problem *Problem `json:"problem,omitempty"`
}

// A Wait asks to be told when one of the guards may no longer hold.
type Wait struct {
	Guards []Guard       `json:"guards,omitempty"`
	For    time.Duration `json:"for,omitempty"` // at most this long; see [MaxWait]
}

// Waits is a wait as it goes over the wire.
func Waits(guards []driver.Guard, long time.Duration) Wait {
	return Wait{Guards: list(guards, sendGuard), For: long}
}

// Waited is the answer to a wait.
type Waited struct {
	Changed bool     `json:"changed,omitempty"` // false: the time is over
	Problem *Problem `json:"problem,omitempty"`
}

func list[A, B any](of []A, f func(A) B) []B {
	if of == nil {
		return nil
	}
	out := make([]B, len(of))
	for i, a := range of {
		out[i] = f(a)
	}
	return out
}

func bytesOf(keys []string) [][]byte { return list(keys, func(s string) []byte { return []byte(s) }) }

func textOf(keys [][]byte) []string { return list(keys, func(b []byte) string { return string(b) }) }
