package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/driver/drivertest"
	"github.com/tasklock/tasklock/store/memstore"
)

func increment(ctx context.Context, st *store.Store, note string) error {
	_, err := st.Update(ctx, driver.Query{Keys: []string{"test/n"}}, func(tx *store.Tx) error {
		e, err := store.Get[number](tx, "test/n")
		if err != nil {
			return err
		}
		tx.Note(note)
		return tx.Put("test/n", number{e.Value.N + 1})
	})
	return err
}

// slow takes a while for a commit.
type slow struct {
	driver.Store
	takes time.Duration
}

func (s slow) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	time.Sleep(s.takes)
	return s.Store.Commit(ctx, b)
}

// Many who rewrite one record at once take turns: each makes a few commits, not as
// many as there are others, however long they all take together.
func TestTurns(t *testing.T) {
	for n, takes := range map[int]time.Duration{10: time.Millisecond, 100: time.Millisecond, 500: time.Millisecond, 501: 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			counted := drivertest.NewCounted(slow{memstore.New(), takes})
			st := store.New(counted)
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					if err := increment(t.Context(), st, ""); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			e := number{}
			err := st.View(t.Context(), driver.Query{}, func(tx *store.Tx) error {
				r, err := store.Get[number](tx, "test/n")
				e = r.Value
				return err
			})
			if err != nil || e.N != n {
				t.Errorf("counted to %d of %d, %v", e.N, n, err)
			}
			if c := counted.Take(); c.Commits+c.Refused > int64(4*n) {
				t.Errorf("%+v for %d", c, n)
			}
		})
	}
}

// A turn ends also when the function panics: those who come later wait for nobody.
func TestTurnEndsWithAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := store.New(&hanging{Store: memstore.New()})
		first := increment(t.Context(), st, "")
		func() {
			defer func() { _ = recover() }()
			runs := 0
			_, err := st.Update(t.Context(), driver.Query{Keys: []string{"test/n"}}, func(tx *store.Tx) error {
				if runs++; runs > 2 { // it has its turn
					panic("a bug")
				}
				_, err := store.Get[number](tx, "test/n")
				tx.Note("hang")
				return errors.Join(err, tx.Put("test/n", number{}))
			})
			t.Errorf("no panic, but %v", err)
		}()
		began := time.Now()
		if err := errors.Join(first, increment(t.Context(), st, "")); err != nil || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// hanging refuses the commit with that note twice, and then does not answer it.
type hanging struct {
	driver.Store
	refused int
}

func (h *hanging) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	if b.Note != "hang" {
		return h.Store.Commit(ctx, b)
	}
	if h.refused++; h.refused <= 2 {
		return 0, driver.ErrConflict
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

// A turn saves work and no more: one that does not end does not stop the others.
func TestTurnThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := store.New(&hanging{Store: memstore.New()})
		ctx, cancel := context.WithCancel(t.Context())
		first := increment(ctx, st, "")
		done := make(chan error)
		go func() { done <- increment(ctx, st, "hang") }()
		time.Sleep(time.Second)
		began := time.Now()
		if err := errors.Join(first, increment(ctx, st, "")); err != nil || time.Since(began) > time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		cancel()
		if err := <-done; !errors.Is(err, store.ErrUnknown) {
			t.Errorf("the one that hangs: %v", err)
		}
	})
}

// hiccup fails to read once, after some time.
type hiccup struct {
	driver.Store
	after time.Time
	once  sync.Once
}

func (h *hiccup) Read(ctx context.Context, q driver.Query) (snap driver.Snapshot, err error) {
	if time.Now().After(h.after) {
		h.once.Do(func() { err = errors.New("hiccup") })
	}
	if err != nil {
		return snap, err
	}
	return h.Store.Read(ctx, q)
}

// The wait for a turn takes nothing from the patience with the store.
func TestTurnLeavesThePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &hiccup{Store: memstore.New(), after: time.Now().Add(5 * time.Second)}
		st := store.NewWith(&hanging{Store: d}, store.Options{Patience: 3 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		first := increment(ctx, st, "")
		done := make(chan error)
		go func() { done <- increment(ctx, st, "hang") }()
		time.Sleep(time.Second)
		if err := errors.Join(first, increment(ctx, st, "")); err != nil {
			t.Error(err)
		}
		cancel()
		<-done
	})
}
