package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

func TestMayPass(t *testing.T) {
	record := &RecordError{Key: "task/t1", Err: errors.New("not JSON")}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{ErrUnreachable, true},
		{ErrUnknown, true},
		{fmt.Errorf("%w: %w", ErrUnknown, context.Canceled), true},
		{context.DeadlineExceeded, true},
		{driver.ErrFull, true},
		{driver.ErrNoTurn, true},
		{driver.ErrDenied, true},
		{&FillingError{From: "here"}, true},
		{&OlderError{Converting: true}, true},
		{record, true},
		{fmt.Errorf("job x: %w", record), true},

		{&OlderError{Format: 1}, false},
		{driver.ErrNewer, false},
		{driver.ErrMissing, false},
		{&driver.LacksError{}, false},
		{driver.ErrDamaged, false},
		{&RecordError{Key: metaKey, Err: errors.New("not JSON")}, false},
		{driver.ErrUnsafe, false},
		{driver.ErrTooLarge, false},
		{driver.ErrInvalid, false},
		{&MovedError{To: "there"}, false},
		{driver.ErrClosed, false},
		{&readError{driver.ErrClosed}, false},
		{context.Canceled, false},
		{errors.New("held by somebody"), false},
	} {
		if got := MayPass(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

// What a driver says comes out of Update and View as MayPass needs it.
func TestMayPassThrough(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errors.New("connection refused"), true}, {driver.ErrFull, true}, {driver.ErrDenied, true},
		{driver.ErrDamaged, false}, {driver.ErrMissing, false}, {driver.ErrClosed, false}, {driver.ErrNewer, false},
	} {
		st := New(failing{memstore.New(), c.err})
		if err := st.View(t.Context(), driver.Query{}, func(*Tx) error { return nil }); MayPass(err) != c.want {
			t.Errorf("view: %v", err)
		}
		_, err := New(failing{memstore.New(), c.err}).Update(t.Context(), driver.Query{}, func(tx *Tx) error { return tx.Put("task/a", struct{}{}) })
		if MayPass(err) != c.want {
			t.Errorf("update: %v", err)
		}
	}
}

// failing refuses everything in one way.
type failing struct {
	driver.Store
	err error
}

func (f failing) Read(context.Context, driver.Query) (driver.Snapshot, error) {
	return driver.Snapshot{}, f.err
}

func (f failing) Commit(context.Context, driver.Batch) (int64, error) { return 0, f.err }

// noWait is a driver whose server goes away under a wait.
type noWait struct {
	driver.Store
	err error
}

func (n noWait) Wait(context.Context, []driver.Guard) error { return n.err }

// A wait that the driver cannot go on with is over: the caller looks again, and
// learns what is wrong if it lasts. What cannot pass ends the wait with an error.
func TestWaitEndsEarly(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errors.New("connection reset by peer"), true}, {ErrUnreachable, true},
		{driver.ErrMissing, false}, {driver.ErrClosed, false}, {driver.ErrDenied, false},
	} {
		st := New(noWait{memstore.New(), c.err})
		err := st.Wait(t.Context(), []driver.Guard{{Key: "lock/a"}})
		if (err == nil) != c.want || err != nil && !errors.Is(err, c.err) {
			t.Errorf("%v: %v", c.err, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(noWait{memstore.New(), context.Canceled}).Wait(ended, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
}
