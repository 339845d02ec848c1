package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errCut   = errors.New("connection cut")
	errLeave = errors.New("script.rival ends the caller's context")
)

// A fate is what befalls one commit.
type fate string

const (
	fine   fate = "fine"
	before fate = "request lost"
	after  fate = "reply lost"
	late   fate = "request late" // an error at once; applied by script.arrive
	twice  fate = "request twice"
	rival  fate = "rival first" // script.rival runs, then the commit goes on
)

// script is a store whose commits and reads fail as a test says.
type script struct {
	*memstore.Store
	rival func()

	unsure bool // what it shows may be lost

	mu      sync.Mutex
	fates   []fate  // of the next commits; then all is fine
	reads   []error // of the next reads
	held    []driver.Batch
	batches []driver.Batch // all that were sent
	looks   int
}

func (s *script) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	s.mu.Lock()
	s.looks++
	var err error
	if len(s.reads) > 0 {
		err, s.reads = s.reads[0], s.reads[1:]
	}
	s.mu.Unlock()
	if errors.Is(err, errLeave) {
		s.rival()
		err = ctx.Err()
	}
	if err != nil {
		return driver.Snapshot{}, err
	}
	snap, err := s.Store.Read(ctx, q)
	snap.Unsure = s.unsure
	return snap, err
}

func (s *script) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	switch s.next(b) {
	case before:
		return 0, errCut
	case after:
		_, _ = s.Store.Commit(ctx, b)
		return 0, errCut
	case late:
		s.held = append(s.held, b)
		return 0, errCut
	case twice:
		rev, err := s.Store.Commit(ctx, b)
		_, _ = s.Store.Commit(ctx, b)
		return rev, err
	case rival:
		s.rival()
	}
	return s.Store.Commit(ctx, b)
}

func (s *script) next(b driver.Batch) fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, b)
	if len(s.fates) == 0 {
		return fine
	}
	f := s.fates[0]
	s.fates = s.fates[1:]
	return f
}

// arrive applies what was late, if its guards still hold.
func (s *script) arrive() (applied int) {
	for _, b := range s.held {
		if _, err := s.Store.Commit(context.Background(), b); err == nil {
			applied++
		}
	}
	s.held = nil
	return applied
}

// scripted runs fn in a bubble over a fresh store that has been written to
// once, so that the description of the store exists.
func scripted(t *testing.T, fn func(t *testing.T, s *script, st *store.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &script{Store: memstore.New()}
		st := store.New(s)
		put(t, st, "test/first", 1)
		fn(t, s, st)
	})
}

type number struct {
	N int `json:"n"`
}

func put(t *testing.T, st *store.Store, key string, n int) int64 {
	t.Helper()
	rev, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error { return tx.Put(key, number{n}) })
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func get(t *testing.T, st *store.Store, key string) (e store.Entry[number]) {
	t.Helper()
	err := st.View(t.Context(), driver.Query{}, func(tx *store.Tx) (err error) {
		e, err = store.Get[number](tx, key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
