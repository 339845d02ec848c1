// Package driver is the contract between tasklock and the stores that keep its
// records: SQLite, plain files, a git branch, PostgreSQL, etcd, or a server with one
// of them.
//
// Each of them has the same primitive: write these records if those records
// have not changed. A driver has four methods and knows keys, JSON values and
// revisions. It knows nothing of leases, tasks or owners: those rules are
// written once, above it.
//
// # Revisions
//
// Every commit that writes gets a revision, larger than that of every commit
// before it, in the order in which commits become visible. A record's Rev is
// the revision of the commit that last wrote it. Revisions never go back and
// are never used twice, even after a deletion, compaction or restore; Floor
// raises them when records move here from another store.
//
// # Outcomes
//
// Commit has three outcomes. A nil error: the batch is applied and survives
// loss of power. [ErrConflict]: a guard did not hold, nothing was written.
// Any other error, unless it is one of the refusals below, means the outcome
// is unknown: the batch may have been applied, or may still be. [ErrFull],
// [ErrNoTurn] and [ErrUntouched] are neither: nothing was written, and a
// repetition succeeds when the disk has room, the turn is free or the store is
// reachable.
//
// # Refusals
//
// [ErrDamaged], [ErrUnsafe], [ErrNewer], [ErrMissing], [ErrDenied],
// [ErrTooLarge] and [ErrInvalid] are answers: nothing was written and repeating does not help.
package driver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of one batch and of one record. Every driver accepts what is within
// them; [Batch.Check] refuses what is not.
const (
	MaxKey    = 1024     // bytes of a record key
	MaxValue  = 64 << 10 // bytes of one value
	MaxGuards = 100      // guards of one batch
	MaxWrites = 6100     // writes of one batch: a thousand new tasks with their indexes
	MaxBatch  = 1 << 20  // bytes of all keys and values of one batch
)

// The answers a driver gives besides nil. A driver wraps them with what it
// knows (the file, the server's words); callers use errors.Is.
var (
	// ErrConflict: a guard did not hold, and nothing was written.
	ErrConflict = errors.New("conflict")
	// ErrDamaged: the stored bytes are not a record of ours. Never "absent".
	ErrDamaged = errors.New("store damaged")
	// ErrUnsafe: the environment cannot keep the promises (file system,
	// permissions, a symlink where a folder should be).
	ErrUnsafe = errors.New("unsafe environment")
	// ErrNewer: written by a newer version of tasklock.
	ErrNewer = errors.New("store has a newer format")
	// ErrOlder: written by an older version of tasklock; it must be upgraded first.
	ErrOlder = errors.New("store has an older format")
	// ErrMissing: there is no store at that place and this call may not make one.
	ErrMissing = errors.New("no store here")
	// ErrDenied: the place exists and refuses us (credentials, read-only).
	ErrDenied = errors.New("store refuses access")
	// ErrFull: the disk is full or the quota used up; nothing was written.
	ErrFull = errors.New("disk full, nothing was written")
	// ErrNoTurn: another session keeps the turn to commit; nothing was written.
	ErrNoTurn = errors.New("no turn to commit, nothing was written")
	// ErrUntouched: the store was unreachable and the batch was not sent, or the
	// server turned it away. Nothing was written, and nothing is on its way.
	ErrUntouched = errors.New("nothing was changed")
	// ErrTooLarge: the batch exceeds a limit above.
	ErrTooLarge = errors.New("too large")
	// ErrInvalid: the batch is malformed, regardless of stored data.
	ErrInvalid = errors.New("bad input")
)

// Newer is an [ErrNewer] for a store whose format is above known, the newest
// that this program reads.
func Newer(where string, format, known int) error {
	return fmt.Errorf("%w: %s has format %d, this tasklock reads up to %d; upgrade it to the version that wrote that, or to the newest: "+
		"go install github.com/tasklock/tasklock/cmd/...@latest", ErrNewer, where, format, known)
}

// LacksError is an [ErrMissing] that `init` cannot cure: the database or the
// repository of the store is missing. Remedy is a command that makes it.
type LacksError struct{ Text, Remedy string }

func (e *LacksError) Error() string {
	return fmt.Sprintf("%v: %s; make it: %s", ErrMissing, e.Text, e.Remedy)
}

// Is makes it an ErrMissing.
func (e *LacksError) Is(target error) bool { return target == ErrMissing }

// Refusal reports whether err is an answer that repeating will not change.
func Refusal(err error) bool {
	for _, e := range []error{ErrDamaged, ErrUnsafe, ErrNewer, ErrOlder, ErrMissing, ErrDenied, ErrTooLarge, ErrInvalid} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// A Record is one stored value.
type Record struct {
	Key   string    // "kind/name"; the name may hold "/"
	Rev   int64     // revision of the commit that last wrote it
	Time  time.Time // when that was, such that Snapshot.Now.Sub(Time) is the record's age by the store's own clock
	Value []byte    // a JSON object
}

// A Range selects records by key prefix, in byte order of their keys.
type Range struct {
	Prefix string
	// After, unless empty, selects only keys above it. It is text like a key; it need
	// not be the key of a record nor begin with Prefix. Limit counts the keys above it,
	// so the next page of a range begins After the last key of the page before. Each
	// Read is a view of its own: a record that is there throughout is on one page.
	After string
	Limit int // n > 0: the first n; n < 0: the last -n; 0: all
	// Since, with Limit 0: the caller needs only what later commits wrote. A driver may
	// leave out records whose Rev is not above Since, if that is cheaper, and no others.
	Since int64
}

// From is the least text that the range can select as a key. Keys have no NUL, so
// the least key above After is After with a byte 1.
func (r Range) From() string { return max(r.Prefix, r.After+"\x01") }

// Selects reports whether a key is in the range, whatever its Limit.
func (r Range) Selects(key string) bool { return key > r.After && strings.HasPrefix(key, r.Prefix) }

// A Query names what to read. A driver that must split it reads every part
// at one revision.
type Query struct {
	Keys   []string
	Ranges []Range
	// Since, unless 0, allows an answer from before the call, if that is cheaper:
	// one view of that revision or a later one. It is for callers that have seen
	// that revision already.
	Since int64
	// Guarded, with Since, is for a caller that commits with a guard on all records
	// that it uses, or else asks again without Guarded. It allows more: each record
	// may be as it was at another revision, of Since or later, and the records of New
	// may be missing although they exist. The guards find out.
	Guarded bool
	// New are those of Keys whose names the caller has just drawn at random: nobody
	// has written them, most likely.
	New []string
	// Poll says that the caller asks the same about once a second. A driver that
	// must ask a distant server for each answer may ask it only as often as it
	// polls while it waits, and repeat the last answer in between.
	Poll bool
}

// A Snapshot is one consistent view of the store. Keys that do not exist have
// no record in it. A record that several parts of the query select appears
// once for each of them, first the keys in their order, then each range.
//
// Now is current. Only if the snapshot is Old may it be late, by some seconds at
// most, counting those that the machine slept: then records look younger than they
// are, and never older.
type Snapshot struct {
	Rev     int64     // the newest revision in the store at this view; of a Guarded answer that is Old, the lowest
	Now     time.Time // the store's clock; see Old
	Old     bool      // it may be from before the call, as Query.Since allowed
	Unsure  bool      // it may show what was never acknowledged and will be lost, until a later commit is
	Records []Record
}

// A Guard is a condition of a commit. For a record, "kind/name": the record is
// still at Rev, where 0 means absent. For a kind, "kind/": no record of the
// kind was written or deleted by a revision above Rev.
type Guard struct {
	Key string
	Rev int64
}

// IsKind reports whether the guard stands for a whole kind.
func (g Guard) IsKind() bool { return strings.HasSuffix(g.Key, "/") && strings.Count(g.Key, "/") == 1 }

// A Write replaces or, with a nil Value, deletes one record. A record with a
// TTL expires once its age exceeds it, and stays: every store shows, renews and
// ends expired records alike. A driver needs the TTL only if its server's clock
// decides that age.
type Write struct {
	Key   string
	Value []byte
	TTL   time.Duration
}

// A Batch is one transaction: if all guards hold, all writes are applied at
// one new revision that is not below Floor. A key is written at most once.
// Note tells people what happens and who does it, if the store can show it.
type Batch struct {
	Guards []Guard
	Writes []Write
	Floor  int64
	Note   string
}

// Store is what a driver implements. All methods are safe for concurrent use.
type Store interface {
	// Read returns one consistent view that includes every commit that
	// returned before the call, unless Query.Since asks for less.
	Read(ctx context.Context, q Query) (Snapshot, error)

	// Commit applies the batch and returns its revision. See the package
	// documentation for the meaning of errors. A batch without writes checks
	// its guards and returns a revision at which they held.
	Commit(ctx context.Context, b Batch) (rev int64, err error)

	// Wait returns nil once one of the guards may no longer hold, at once if
	// one already does not. It may return early. With an ended ctx it returns
	// the ctx's error. Notification is a hint: callers read again.
	Wait(ctx context.Context, guards []Guard) error

	Close() error
}

// Kind returns the kind of a record key with its slash: "lock/" for "lock/a/b".
func Kind(key string) string {
	i := strings.IndexByte(key, '/')
	return key[:i+1]
}

// Check refuses a batch that exceeds the limits or is malformed.
// Drivers call it first in Commit.
func (b Batch) Check() error {
	if len(b.Guards) > MaxGuards {
		return fmt.Errorf("%w: %d guards in one commit, at most %d", ErrTooLarge, len(b.Guards), MaxGuards)
	}
	if len(b.Writes) > MaxWrites {
		return fmt.Errorf("%w: %d records in one commit, at most %d", ErrTooLarge, len(b.Writes), MaxWrites)
	}
	for _, g := range b.Guards {
		if !g.IsKind() {
			if err := CheckKey(g.Key); err != nil {
				return err
			}
		}
	}
	size, seen := 0, make(map[string]bool, len(b.Writes))
	for _, w := range b.Writes {
		if err := CheckKey(w.Key); err != nil {
			return err
		}
		if seen[w.Key] {
			return fmt.Errorf("%w: record %q written twice", ErrInvalid, w.Key)
		}
		seen[w.Key] = true
		if len(w.Value) > MaxValue {
			return fmt.Errorf("%w: record %q has %d bytes, at most %d", ErrTooLarge, w.Key, len(w.Value), MaxValue)
		}
		size += len(w.Key) + len(w.Value)
	}
	if size > MaxBatch {
		return fmt.Errorf("%w: commit of %d bytes, at most %d", ErrTooLarge, size, MaxBatch)
	}
	return nil
}

// CheckKey refuses text that cannot be a record key.
func CheckKey(key string) error {
	if i := strings.IndexByte(key, '/'); i <= 0 || i == len(key)-1 {
		return fmt.Errorf("%w: record key %q is not kind/name", ErrInvalid, key)
	}
	if !utf8.ValidString(key) || strings.IndexByte(key, 0) >= 0 {
		return fmt.Errorf("%w: record key %q is not text", ErrInvalid, key)
	}
	if len(key) > MaxKey {
		return fmt.Errorf("%w: record key of %d bytes, at most %d", ErrTooLarge, len(key), MaxKey)
	}
	return nil
}
