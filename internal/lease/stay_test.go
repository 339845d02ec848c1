package lease_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

// counted counts commits.
type counted struct {
	driver.Store
	commits int
}

func (c *counted) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	c.commits++
	return c.Store.Commit(ctx, b)
}

// A request that stays has a place in the queue without waiting: it keeps it when it
// asks again, which costs no commit, is served in turn, and can leave.
func TestStay(t *testing.T) {
	d := &counted{Store: memstore.New()}
	st := store.New(d)
	hold := func(owner, holder string) (*lease.Lease, error) {
		return lease.Hold(t.Context(), st, lease.AcquireRequest{Keys: []string{"a"}, Owner: owner, Holder: holder, Stay: holder != ""})
	}
	release := func(l *lease.Lease, err error) {
		t.Helper()
		if err == nil {
			err = l.Release(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first, err := hold("first", "")
	if err != nil {
		t.Fatal(err)
	}
	places := func(want ...int) {
		t.Helper()
		for i, owner := range []string{"second", "third"} {
			var held *lease.HeldError
			if _, err := hold(owner, "h"); !errors.As(err, &held) || held.Position != want[i] {
				t.Fatalf("%s: %v, at %+v", owner, err, held)
			}
		}
	}
	places(1, 2)
	joined := d.commits
	if places(1, 2); d.commits != joined {
		t.Errorf("asking again took %d commits", d.commits-joined)
	}
	s, err := lease.Show(t.Context(), st, "a")
	if err != nil || len(s.Waiters) != 2 || s.Waiters[0].Owner != "second/h" || s.Waiters[0].PID != os.Getpid() {
		t.Fatalf("%+v, %v", s.Waiters, err)
	}
	release(first, nil)
	var held *lease.HeldError
	if _, err := hold("third", "h"); !errors.As(err, &held) || held.Ahead != 1 {
		t.Errorf("the third is not behind the second: %v", err)
	}
	if err := lease.LeaveQueue(t.Context(), st, "a", "second/h"); err != nil {
		t.Fatal(err)
	}
	release(hold("third", "h"))
	release(hold("other", ""))
}
