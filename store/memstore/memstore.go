// Package memstore keeps records in memory. It is the executable specification
// of a driver: it answers every question about the contract. It also serves
// tests, and programs that want tasklock's rules among their own goroutines.
//
// It promises everything a driver promises except durability: the records are
// gone with the process.
package memstore

import (
	"bytes"
	"context"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/tasklock/tasklock/store/driver"
)

// Store is a driver.Store in memory.
type Store struct {
	now func() time.Time

	mu      sync.Mutex
	rev     int64
	records map[string]driver.Record
	keys    []string         // of records, sorted
	kinds   map[string]int64 // revision of the last change of each kind
	changed chan struct{}    // closed and replaced by every commit that writes
}

// New returns an empty store that runs on the clock of the process.
func New() *Store { return NewWithClock(time.Now) }

// NewWithClock returns an empty store that runs on the given clock.
func NewWithClock(now func() time.Time) *Store {
	return &Store{
		now:     now,
		records: map[string]driver.Record{},
		kinds:   map[string]int64{},
		changed: make(chan struct{}),
	}
}

// Read implements driver.Store.
func (s *Store) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return driver.Snapshot{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := driver.Snapshot{Rev: s.rev, Now: s.now()}
	for _, k := range q.Keys {
		if r, ok := s.records[k]; ok {
			snap.Records = append(snap.Records, clone(r))
		}
	}
	for _, r := range q.Ranges {
		for _, k := range s.selects(r) {
			if s.records[k].Rev <= r.Since {
				continue
			}
			snap.Records = append(snap.Records, clone(s.records[k]))
		}
	}
	return snap, nil
}

func (s *Store) selects(r driver.Range) []string {
	keys := s.keys[sort.SearchStrings(s.keys, r.From()):]
	n := sort.Search(len(keys), func(i int) bool { return !strings.HasPrefix(keys[i], r.Prefix) })
	keys = keys[:n]
	switch {
	case r.Limit > 0:
		return keys[:min(n, r.Limit)]
	case r.Limit < 0:
		return keys[max(0, n+r.Limit):]
	}
	return keys
}

// Commit implements driver.Store.
func (s *Store) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := b.Check(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range b.Guards {
		if !s.holds(g) {
			return 0, driver.ErrConflict
		}
	}
	if len(b.Writes) == 0 {
		return s.rev, nil
	}
	s.rev = max(s.rev+1, b.Floor)
	for _, w := range b.Writes {
		s.apply(w)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return s.rev, nil
}

func (s *Store) holds(g driver.Guard) bool {
	if g.IsKind() {
		return s.kinds[g.Key] <= g.Rev
	}
	return s.records[g.Key].Rev == g.Rev
}

func (s *Store) apply(w driver.Write) {
	i, exists := slices.BinarySearch(s.keys, w.Key)
	switch {
	case w.Value == nil && !exists:
		return
	case w.Value == nil:
		delete(s.records, w.Key)
		s.keys = slices.Delete(s.keys, i, i+1)
	default:
		if !exists {
			s.keys = slices.Insert(s.keys, i, w.Key)
		}
		s.records[w.Key] = driver.Record{Key: w.Key, Rev: s.rev, Time: s.now(), Value: bytes.Clone(w.Value)}
	}
	s.kinds[driver.Kind(w.Key)] = s.rev
}

// Wait implements driver.Store.
func (s *Store) Wait(ctx context.Context, guards []driver.Guard) error {
	for {
		s.mu.Lock()
		changed, holding := s.changed, true
		for _, g := range guards {
			holding = holding && s.holds(g)
		}
		s.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return err
		}
		if !holding {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close implements driver.Store. The records stay: another handle on the same
// Store may still be in use.
func (s *Store) Close() error { return nil }

func clone(r driver.Record) driver.Record {
	r.Value = bytes.Clone(r.Value)
	return r
}
