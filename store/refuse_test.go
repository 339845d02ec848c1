package store_test

import (
	"errors"
	"testing"

	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestMoveRefuses(t *testing.T) {
	full := func(t *testing.T) driver.Store {
		d := memstore.New()
		put(t, store.New(d), "test/theirs", 1)
		return d
	}
	t.Run("a target with records", func(t *testing.T) {
		a, b := full(t), full(t)
		if _, err := move(a, b); !errors.Is(err, store.ErrNotEmpty) {
			t.Error(err)
		}
		if !isOpen(a) || !isOpen(b) {
			t.Error("something was closed")
		}
	})
	t.Run("a target that others begin to use in the same moment", func(t *testing.T) {
		a, b := full(t), &script{Store: memstore.New()}
		put(t, store.New(b), "test/x", 1)
		commit(t, b, driver.Batch{Writes: []driver.Write{{Key: "test/x"}}})
		b.fates, b.rival = []fate{rival}, func() {
			commit(t, b.Store, driver.Batch{Writes: []driver.Write{{Key: "test/theirs", Value: []byte(`{}`)}}})
		}
		if _, err := move(a, b); !errors.Is(err, store.ErrNotEmpty) {
			t.Error(err)
		}
		if got, _, _ := contents(t, b); got["test/theirs"] == "" || !isOpen(a) || !isOpen(b) {
			t.Errorf("%v; open: %v, %v", got, isOpen(a), isOpen(b))
		}
	})
	t.Run("the same store", func(t *testing.T) {
		a := full(t)
		if _, err := move(a, a); !errors.Is(err, store.ErrSame) {
			t.Error(err)
		}
		b := memstore.New()
		if _, err := move(b, b); !errors.Is(err, store.ErrSame) || !isOpen(b) {
			t.Error(err)
		}
	})
	t.Run("a target that is filled from elsewhere", func(t *testing.T) {
		a, b := full(t), memstore.New()
		l := &life{left: 4}
		if _, err := move(mortal{full(t), l}, mortal{b, l}); !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		if _, err := move(a, b); !errors.Is(err, store.ErrFilling) || !isOpen(a) {
			t.Error(err)
		}
		if _, err := move(b, memstore.New()); !errors.Is(err, store.ErrFilling) {
			t.Error(err)
		}
	})
	t.Run("by those who hold something", func(t *testing.T) {
		a, b := full(t), memstore.New()
		busy := errors.New("busy")
		asked := 0
		r := store.MoveRequest{From: store.New(a), To: store.New(b), FromName: "A", ToName: "B", Leave: func(*store.Tx) error {
			if asked++; asked == 2 { // in the moment of closing
				return busy
			}
			return nil
		}}
		if _, err := store.Move(t.Context(), r); !errors.Is(err, busy) || !isOpen(a) || !isOpen(b) {
			t.Errorf("%v; open: %v, %v", err, isOpen(a), isOpen(b))
		}
	})
	t.Run("a source that cannot be read", func(t *testing.T) {
		a, b := &script{Store: memstore.New()}, memstore.New()
		put(t, store.New(a), "test/a", 1)
		a.reads = []error{nil, nil, driver.ErrDamaged} // description, nobody holds anything, everything
		if _, err := store.Move(t.Context(), store.MoveRequest{
			From: store.New(a), To: store.New(b), FromName: "A", ToName: "B", Leave: func(*store.Tx) error { return nil },
		}); !errors.Is(err, driver.ErrDamaged) {
			t.Error(err)
		}
		if _, _, rev := contents(t, b); rev != 0 || !isOpen(a) {
			t.Errorf("the target is at revision %d, the source open: %v", rev, isOpen(a))
		}
	})
	t.Run("a dry run changes nothing", func(t *testing.T) {
		a, b := full(t), memstore.New()
		r := store.MoveRequest{From: store.New(a), To: store.New(b), FromName: "A", ToName: "B", DryRun: true}
		out, err := store.Move(t.Context(), r)
		if _, _, rev := contents(t, b); err != nil || out.Records != 1 || rev != 0 || !isOpen(a) {
			t.Errorf("%+v, %v", out, err)
		}
	})
}
