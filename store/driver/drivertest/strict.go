package drivertest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/tasklock/tasklock/store/driver"
)

// Strict is a driver that fails its test if code above the driver uses it in a
// way that works in a small store and starves or fails in a large or busy one:
//
//   - A commit whose guards were folded into a guard on a whole kind: any other
//     change of that kind refuses it. Only one that changes many tasks may.
//   - A transaction that asks for its records one by one, and so reads again and
//     again.
type Strict struct {
	driver.Store
	t Reporter

	mu   sync.Mutex
	runs []run
}

// maxDepth bounds the reads of one transaction. A deadlock of five waiters needs
// 13: each of them can only be found after the one before.
const maxDepth = 15

// wholeKinds have rules about absence: an overlapping path, a new task in a
// section, a job's name, a cycle of sections.
var wholeKinds = []string{"path/", "open/", "job/", "section/"}

// run is the last read of a transaction under way.
type run struct {
	q     driver.Query
	depth int
}

// A Reporter is a test that can fail, for example a [testing.TB].
type Reporter interface {
	Errorf(format string, args ...any)
}

// NewStrict wraps a driver for a test.
func NewStrict(t Reporter, d driver.Store) *Strict { return &Strict{Store: d, t: t} }

func (s *Strict) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	s.follow(q)
	return s.Store.Read(ctx, q)
}

// follow counts the reads of a transaction. Each read asks for all that the one
// before asked for, and more, in the same order.
func (s *Strict) follow(q driver.Query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := run{driver.Query{Keys: slices.Clone(q.Keys), Ranges: slices.Clone(q.Ranges)}, 1}
	if q.Since > 1 {
		for i, r := range slices.Backward(s.runs) {
			if len(q.Keys)+len(q.Ranges) > len(r.q.Keys)+len(r.q.Ranges) && begins(q.Keys, r.q.Keys) && begins(q.Ranges, r.q.Ranges) {
				now.depth = r.depth + 1
				s.runs = slices.Delete(s.runs, i, i+1)
				break
			}
		}
	}
	if now.depth == maxDepth+1 {
		s.t.Errorf("a transaction has read %d times and asks for %v: ask for all records before a loop (tx.Want)", now.depth, q.Keys[max(0, len(q.Keys)-3):])
	}
	const kept = 64
	s.runs = append(s.runs, now)
	s.runs = s.runs[max(0, len(s.runs)-kept):]
}

func begins[T comparable](all, first []T) bool {
	return len(all) >= len(first) && slices.Equal(all[:len(first)], first)
}

func (s *Strict) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	const many = 16
	tasks, moves := 0, false
	for _, w := range b.Writes {
		moves = moves || w.Key == "meta/store"
		if driver.Kind(w.Key) == "task/" {
			tasks++
		}
	}
	for _, g := range b.Guards {
		if g.IsKind() && !moves && tasks <= many && !slices.Contains(wholeKinds, g.Key) {
			s.t.Errorf("commit %q guards all of %s because it read more than %d records: it starves where others are at work",
				shorten(b.Note), g.Key, driver.MaxGuards)
		}
	}
	return s.Store.Commit(ctx, b)
}

func shorten(note string) string {
	const most = 200
	if len(note) <= most {
		return note
	}
	return strings.ToValidUTF8(note[:most], "") + "…"
}
