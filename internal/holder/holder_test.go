package holder_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/holder"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/memstore"
)

var errGone = errors.New("the client does not answer")

func taking(st *store.Store, key string, wait time.Duration) func(context.Context) (*lease.Lease, error) {
	return func(ctx context.Context) (*lease.Lease, error) {
		return lease.Hold(ctx, st, lease.AcquireRequest{Keys: []string{key}, Owner: "server", Wait: wait})
	}
}

func locked(t *testing.T, st *store.Store, key string) bool {
	t.Helper()
	c, err := lease.Check(t.Context(), st, lease.CheckRequest{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return c.Locked
}

func TestLeaseOutlivesItsCall(t *testing.T) {
	st := store.New(memstore.New())
	var h holder.Holder
	client, leave := context.WithCancel(t.Context())
	var got *lease.Lease
	if err := h.Take(client, taking(st, "a", 0), func(l *lease.Lease) error { got = l; return nil }); err != nil {
		t.Fatal(err)
	}
	leave()
	if got.Err() != nil || !locked(t, st, "a") {
		t.Fatal("the lease ended with the call that took it:", got.Err())
	}
	if err := h.Close(t.Context()); err != nil || locked(t, st, "a") {
		t.Fatal("close did not give the lease back:", err)
	}
}

func TestWaitEndsWithItsClient(t *testing.T) {
	st := store.New(memstore.New())
	var h holder.Holder
	defer h.Close(context.Background())
	keep := func(*lease.Lease) error { return nil }
	if err := h.Take(t.Context(), taking(st, "a", 0), keep); err != nil {
		t.Fatal(err)
	}
	client, leave := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { leave(errGone) })
	if err := h.Take(client, taking(st, "a", time.Minute), keep); err == nil {
		t.Fatal("a client that left got the lease")
	}
}

func TestUndeliveredLeaseIsGivenBack(t *testing.T) {
	st := store.New(memstore.New())
	var h holder.Holder
	if err := h.Take(t.Context(), taking(st, "a", 0), func(*lease.Lease) error { return errGone }); !errors.Is(err, errGone) {
		t.Fatal(err)
	}
	client, leave := context.WithCancel(t.Context())
	late := func(ctx context.Context) (*lease.Lease, error) {
		defer leave() // the client goes in the moment of the grant
		return taking(st, "b", 0)(ctx)
	}
	if err := h.Take(client, late, func(*lease.Lease) error { t.Error("handed over to nobody"); return nil }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if locked(t, st, "a") || locked(t, st, "b") {
		t.Fatal("a lease stayed that no client has")
	}
}
