package access_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/store"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/memstore"
)

func add(t *testing.T, st *store.Store, r access.AddRequest) access.AddResult {
	t.Helper()
	k, err := access.Add(t.Context(), st, r)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func look(t *testing.T, b *access.Book) {
	t.Helper()
	if err := b.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRoles(t *testing.T) {
	for _, c := range []struct {
		have, need access.Role
		want       bool
	}{
		{access.Viewer, access.Viewer, true}, {access.Viewer, access.Worker, false},
		{access.Worker, access.Viewer, true}, {access.Worker, access.Operator, false},
		{access.Operator, access.Worker, true}, {access.Operator, access.Admin, false},
		{access.Admin, access.Operator, true}, {access.Admin, access.Peer, false},
		{access.Peer, access.Peer, true}, {access.Peer, access.Viewer, false},
		{"", access.Viewer, false}, {access.Admin, "", false}, {"root", access.Viewer, false},
	} {
		if got := c.have.Allows(c.need); got != c.want {
			t.Errorf("%q allows %q: %v", c.have, c.need, got)
		}
	}
}

// TestOnlyTheWholeKeyOpens: neither its id, nor a changed letter, nor what the store
// has of it.
func TestOnlyTheWholeKeyOpens(t *testing.T) {
	st := store.New(memstore.New())
	k := add(t, st, access.AddRequest{Role: access.Worker, Owner: "ci", Name: "x", By: "me"})
	b := access.NewBook(st)
	look(t, b)
	if p := b.Find(t.Context(), k.Secret); p == nil || p.Owner != "ci" || p.Role != access.Worker {
		t.Fatalf("%+v", p)
	}
	last := "a"
	if strings.HasSuffix(k.Secret, "a") {
		last = "b"
	}
	for _, wrong := range []string{
		"", "tl_", "tl_" + k.ID, "tl_" + k.ID + "_", k.Secret[:len(k.Secret)-1], k.Secret[:len(k.Secret)-1] + last,
		k.Secret + "a", strings.ToUpper(k.Secret), " " + k.Secret, "tl__" + strings.Repeat("a", 52), strings.Repeat("a", 1<<20),
	} {
		if b.Find(t.Context(), wrong) != nil {
			t.Errorf("%.80q opens", wrong)
		}
	}
	list, err := access.List(t.Context(), st)
	if err != nil || len(list.Keys) != 1 || list.Keys[0].State != access.Valid || list.Keys[0].ID != k.ID {
		t.Errorf("%+v %v", list, err)
	}
	copied, err := st.ReadAll(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range copied.Records {
		if strings.Contains(string(rec.Value), k.Secret[len("tl_"+k.ID+"_"):]) {
			t.Errorf("%s has the secret", rec.Key)
		}
	}
}

func TestRevoked(t *testing.T) {
	st := store.New(memstore.New())
	k := add(t, st, access.AddRequest{Role: access.Admin, Owner: "ops", By: "me"})
	child := add(t, st, access.AddRequest{Role: access.Worker, Owner: "ops/ci", Parent: k.ID})
	grand := add(t, st, access.AddRequest{Role: access.Viewer, Owner: "ops/ci/look", Parent: child.ID})
	other := add(t, st, access.AddRequest{Role: access.Viewer})
	b := access.NewBook(st)
	look(t, b)
	p := b.Find(t.Context(), grand.Secret)
	if p == nil {
		t.Fatal("not found")
	}
	if _, err := access.Revoke(t.Context(), st, access.RevokeRequest{IDs: []string{other.ID}, Parent: k.ID}); err == nil {
		t.Error("a key revoked one that it did not make")
	}
	if _, err := access.Revoke(t.Context(), st, access.RevokeRequest{IDs: []string{other.ID, "nosuchkey0"}}); err == nil || b.Find(t.Context(), other.Secret) == nil {
		t.Error("half of a revocation")
	}
	out, err := access.Revoke(t.Context(), st, access.RevokeRequest{IDs: []string{k.ID}, By: "me"})
	if err != nil || len(out.Revoked) != 1 || out.Revoked[0].ID != k.ID {
		t.Errorf("%+v %v", out, err)
	}
	if p.Context().Err() != nil {
		t.Error("it ended before anybody looked")
	}
	look(t, b)
	if !errors.Is(context.Cause(p.Context()), access.ErrRevoked) {
		t.Error("its requests go on")
	}
	for _, dead := range []access.AddResult{k, child, grand} {
		if b.Find(t.Context(), dead.Secret) != nil {
			t.Errorf("%s opens", dead.Role)
		}
	}
	if b.Find(t.Context(), other.Secret) == nil {
		t.Error("a stranger's key does not open")
	}
	if list, err := access.List(t.Context(), st); err != nil || len(list.Keys) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	history, err := lease.History(t.Context(), st, lease.HistoryRequest{})
	if err != nil || len(history.Events) != 5 || history.Events[4].Event != "key revoked" {
		t.Errorf("%+v %v", history, err)
	}
}

// TestChildKeys: a key makes only keys that allow less.
func TestChildKeys(t *testing.T) {
	st := store.New(memstore.New())
	k := add(t, st, access.AddRequest{Role: access.Operator, Owner: "ops", Expires: time.Hour})
	for _, r := range []access.AddRequest{
		{Role: access.Admin, Owner: "ops/a"}, {Role: access.Peer, Owner: "ops/a"}, {Role: access.Worker, Owner: "ops"},
		{Role: access.Worker, Owner: "opsy"}, {Role: access.Worker, Owner: "other"}, {Role: access.Viewer},
		{Role: "root", Owner: "ops/a"}, {Role: access.Worker, Owner: "ops//a"},
	} {
		r.Parent = k.ID
		if got, err := access.Add(t.Context(), st, r); err == nil {
			t.Errorf("%+v: %+v", r, got)
		}
	}
	child := add(t, st, access.AddRequest{Role: access.Worker, Owner: "ops/a", Expires: 48 * time.Hour, Parent: k.ID})
	if child.Expires == nil || child.Expires.After(*k.Expires) {
		t.Errorf("it outlasts its parent: %v, %v", child.Expires, k.Expires)
	}
	if _, err := access.Add(t.Context(), st, access.AddRequest{Role: access.Worker, Owner: "ops/a", Parent: "nosuchkey0"}); !errors.Is(err, access.ErrRevoked) {
		t.Error(err)
	}
}

func TestExpiredKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := store.New(memstore.New())
		k := add(t, st, access.AddRequest{Role: access.Admin, Owner: "ops", Expires: time.Hour})
		child := add(t, st, access.AddRequest{Role: access.Viewer, Owner: "ops/a", Parent: k.ID})
		b := access.NewBook(st)
		look(t, b)
		p := b.Find(t.Context(), child.Secret)
		time.Sleep(time.Hour - 1)
		if b.Find(t.Context(), k.Secret) == nil || p == nil {
			t.Fatal("expired too soon")
		}
		time.Sleep(1)
		if b.Find(t.Context(), k.Secret) != nil || b.Find(t.Context(), child.Secret) != nil {
			t.Error("opens after its end")
		}
		look(t, b)
		if p.Context().Err() == nil {
			t.Error("its requests go on")
		}
		if _, err := access.Add(t.Context(), st, access.AddRequest{Role: access.Viewer, Owner: "ops/b", Parent: k.ID}); !errors.Is(err, access.ErrRevoked) {
			t.Error(err)
		}
		list, _ := access.List(t.Context(), st)
		if list.Keys[0].State != access.Expired {
			t.Errorf("%+v", list)
		}
	})
}

// TestWrongKeysCostNothing: a flood of unknown ids causes few reads, and a new key is
// found at once without one.
func TestWrongKeysCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &counting{Store: memstore.New()}
		st := store.New(d)
		ctx, cancel := context.WithCancel(t.Context())
		b := access.NewBook(st)
		done := make(chan struct{})
		go func() { defer close(done); b.Follow(ctx, func(err error) { t.Error(err) }) }()
		synctest.Wait()
		k := add(t, st, access.AddRequest{Role: access.Viewer})
		if b.Find(ctx, k.Secret) == nil {
			t.Error("a new key is not found")
		}
		before := d.reads.Load()
		for range 10_000 {
			if b.Find(ctx, "tl_aaaaaaaaaa_"+strings.Repeat("a", 52)) != nil {
				t.Fatal("found")
			}
		}
		if n := d.reads.Load() - before; n > 10 {
			t.Errorf("%d reads", n)
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		late := add(t, st, access.AddRequest{Role: access.Viewer})
		if b.Find(ctx, late.Secret) == nil {
			t.Error("a new key is not found after a flood")
		}
		cancel()
		<-done
	})
}

// TestDamagedKey: it opens nothing, can be revoked, and hinders no other key.
func TestDamagedKey(t *testing.T) {
	st := store.New(memstore.New())
	k := add(t, st, access.AddRequest{Role: access.Viewer})
	bad := add(t, st, access.AddRequest{Role: access.Admin, Owner: "ops"})
	_, err := st.Update(t.Context(), driver.Query{}, func(tx *store.Tx) error {
		return tx.Put("access/"+bad.ID, map[string]any{"role": "admin", "sha256": ""})
	})
	if err != nil {
		t.Fatal(err)
	}
	b := access.NewBook(st)
	look(t, b)
	if b.Find(t.Context(), k.Secret) == nil || b.Find(t.Context(), bad.Secret) != nil {
		t.Error("wrong one")
	}
	list, err := access.List(t.Context(), st)
	if err != nil || len(list.Keys) != 2 || list.Keys[0].State != access.Damaged {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := access.Revoke(t.Context(), st, access.RevokeRequest{IDs: []string{bad.ID}}); err != nil {
		t.Error(err)
	}
}

type counting struct {
	driver.Store
	reads atomic.Int64
}

func (c *counting) Read(ctx context.Context, q driver.Query) (driver.Snapshot, error) {
	c.reads.Add(1)
	return c.Store.Read(ctx, q)
}
