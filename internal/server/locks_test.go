package server_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/patience"
	"github.com/tasklock/tasklock/internal/server"
)

// TestLocks is the life of a lock, by curl as it were.
func TestLocks(t *testing.T) {
	w := newWorld(t)
	worker, viewer, operator := w.key(access.Worker, "ci").Secret, w.key(access.Viewer, "").Secret, w.key(access.Operator, "ops").Secret
	if r := w.must(200, "GET", "/v1/locks/check?key=deploy", viewer, "", nil); r.Locked {
		t.Errorf("%+v", r)
	}
	first := id()
	g := w.must(200, "POST", "/v1/locks/acquire", worker, first, object{"keys": []string{"deploy"}, "reason": "v2"})
	if g.State != "acquired" || g.Owner != "ci/"+first || g.LeaseID != g.Owner+"/"+first || g.Token == 0 {
		t.Fatalf("%+v", g)
	}
	info, err := lease.Check(t.Context(), w.st, lease.CheckRequest{Key: "deploy"})
	if err != nil || info.Lock.PID != 0 || info.Lock.Host != "" || info.Lock.ExpiresAt.Sub(info.Lock.HeartbeatAt) != time.Minute {
		t.Errorf("%+v %v", info.Lock, err)
	}
	w.must(200, "GET", fmt.Sprintf("/v1/locks/check?key=deploy&token=%d", g.Token), viewer, "", nil)
	w.must(412, "GET", fmt.Sprintf("/v1/locks/check?key=deploy&token=%d", g.Token+1), viewer, "", nil)
	w.must(200, "GET", "/v1/locks/show?key=deploy", viewer, "", nil)
	w.must(404, "GET", "/v1/locks/show?key=nothing", viewer, "", nil)
	if r := w.must(200, "GET", "/v1/locks?owner=ci", viewer, "", nil); len(r.Locks) != 1 {
		t.Errorf("%s", r.text)
	}
	if r := w.must(423, "POST", "/v1/locks/acquire", worker, id(), object{"keys": []string{"deploy"}, "wait": "0s"}); r.Code != "TASK_LOCKED" || r.header.Get("Retry-After") == "" {
		t.Errorf("%+v", r)
	}
	w.must(200, "POST", "/v1/locks/renew", worker, "", object{"lease": g.LeaseID, "token": g.Token})
	w.must(412, "POST", "/v1/locks/renew", worker, "", object{"lease": g.LeaseID, "token": g.Token + 1})
	w.must(412, "POST", "/v1/locks/release", worker, "", object{"lease": g.LeaseID, "token": g.Token + 1})
	w.must(400, "POST", "/v1/locks/renew", worker, "", object{"lease": g.LeaseID})
	for range 2 { // a lost reply
		w.must(200, "POST", "/v1/locks/release", worker, "", object{"lease": g.LeaseID, "token": g.Token})
	}
	w.must(412, "POST", "/v1/locks/renew", worker, "", object{"lease": g.LeaseID, "token": g.Token})
	w.must(412, "POST", "/v1/locks/acquire", worker, first, object{"keys": []string{"deploy"}, "reason": "v2"})

	g = w.must(200, "POST", "/v1/locks/acquire", worker, id(), object{"keys": []string{"deploy", "a"}})
	breaks := id()
	w.must(400, "POST", "/v1/locks/break", operator, breaks, object{"keys": []string{"deploy"}})
	for range 2 {
		if r := w.must(200, "POST", "/v1/locks/break", operator, breaks, object{"keys": []string{"deploy"}, "reason": "stuck"}); len(r.Released) != 2 {
			t.Errorf("%s", r.text)
		}
	}
	w.must(412, "POST", "/v1/locks/release", worker, "", object{"lease": g.LeaseID, "token": g.Token})
	w.must(200, "POST", "/v1/cleanup", operator, "", object{})
}

// TestSameRequest: a repeated acquisition has one effect, at any server, and the same
// Idempotency-Key of another owner is another request.
func TestSameRequest(t *testing.T) {
	w := newWorld(t)
	other := w.serve(server.Options{})
	ci, bob := w.key(access.Worker, "ci").Secret, w.key(access.Worker, "bob").Secret
	same, body := id(), object{"keys": []string{"x"}, "wait": "0s"}
	g := w.must(200, "POST", "/v1/locks/acquire", ci, same, body)
	again := w.at(other, 200, "POST", "/v1/locks/acquire", ci, same, body)
	if again.LeaseID != g.LeaseID || again.Token != g.Token {
		t.Errorf("%+v, %+v", g, again)
	}
	for _, other := range []object{{"keys": []string{"y"}}, {"keys": []string{"x", "y"}}, {"keys": []string{"x"}, "ttl": "5m"}} {
		if r := w.must(422, "POST", "/v1/locks/acquire", ci, same, other); r.Code != "REQUEST_ID_USED" {
			t.Errorf("%+v", r)
		}
	}
	w.must(423, "POST", "/v1/locks/acquire", bob, same, body)
	w.must(403, "POST", "/v1/locks/release", bob, "", object{"lease": g.LeaseID, "token": g.Token})
	w.must(403, "POST", "/v1/locks/renew", bob, "", object{"lease": g.LeaseID, "token": g.Token})
	w.at(other, 200, "POST", "/v1/locks/renew", ci, "", object{"lease": g.LeaseID, "token": g.Token})
	w.at(other, 200, "POST", "/v1/locks/release", ci, "", object{"lease": g.LeaseID, "token": g.Token})
	for _, bad := range []string{"", "short", "has space in it 1234", "slash/slash/slash1", string(make([]byte, 70))} {
		if r, err := w.call("POST", "/v1/locks/acquire", ci, bad, body); err == nil && r.status != 400 {
			t.Errorf("%q: %+v", bad, r)
		}
	}
}

// TestWaitsGoOn: who waits in vain is queued, keeps its place at every server, and no
// ticket names a process.
func TestWaitsGoOn(t *testing.T) {
	w := newWorld(t)
	other := w.serve(server.Options{})
	key := w.key(access.Worker, "ci").Secret
	g := w.must(200, "POST", "/v1/locks/acquire", key, id(), object{"keys": []string{"x"}})
	first, second := id(), id()
	ask := func(wait string) object { return object{"keys": []string{"x"}, "wait": wait} }
	for i, request := range []string{first, second} {
		if r := w.must(202, "POST", "/v1/locks/acquire", key, request, ask("1ms")); r.State != "queued" || r.Position != i+1 {
			t.Fatalf("%+v", r)
		}
	}
	shown, err := lease.Show(t.Context(), w.st, "x")
	if err != nil || len(shown.Waiters) != 2 || shown.Waiters[0].PID != 0 || shown.Waiters[0].Host != "" {
		t.Errorf("%+v %v", shown, err)
	}
	w.must(200, "POST", "/v1/locks/release", key, "", object{"lease": g.LeaseID, "token": g.Token})
	if r := w.must(202, "POST", "/v1/locks/acquire", key, second, ask("1ms")); r.Position != 2 {
		t.Errorf("%+v", r)
	}
	if r := w.at(other, 200, "POST", "/v1/locks/acquire", key, first, ask("0s")); r.State != "acquired" {
		t.Errorf("%+v", r)
	}
	// The second leaves the queue by the name of its ticket.
	w.must(200, "POST", "/v1/locks/release", key, "", object{"lease": "ci/" + second + "/" + second})
	if shown, err := lease.Show(t.Context(), w.st, "x"); err != nil || len(shown.Waiters) != 0 {
		t.Errorf("%+v %v", shown, err)
	}
}

// TestCutConnection: the ticket of a client that is gone stays, and the client goes on
// where it was.
func TestCutConnection(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Worker, "ci").Secret
	g := w.must(200, "POST", "/v1/locks/acquire", key, id(), object{"keys": []string{"x"}})
	first := id()
	ctx, cut := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = w.send(ctx, "POST", "/v1/locks/acquire", key, first, object{"keys": []string{"x"}, "wait": "50s"})
	}()
	waiters := func(n int) func() bool {
		return func() bool {
			s, err := lease.Show(t.Context(), w.st, "x")
			if err == nil && len(s.Waiters) > 0 && s.Waiters[0].PID != 0 {
				t.Errorf("its ticket ends with a server: %+v", s.Waiters[0])
			}
			return err == nil && len(s.Waiters) == n
		}
	}
	patience.Until(t, "it waits", waiters(1))
	cut()
	<-gone
	if r := w.must(202, "POST", "/v1/locks/acquire", key, id(), object{"keys": []string{"x"}, "wait": "1ms"}); r.Position != 2 {
		t.Errorf("%+v", r)
	}
	w.must(200, "POST", "/v1/locks/release", key, "", object{"lease": g.LeaseID, "token": g.Token})
	w.must(200, "POST", "/v1/locks/acquire", key, first, object{"keys": []string{"x"}, "wait": "0s"})
}

// TestOneKeyManyClients: sixteen clients with one access key, at two servers, exclude
// each other, and every wait is served.
func TestOneKeyManyClients(t *testing.T) {
	w := newWorld(t)
	servers := []*replica{w.replica, w.serve(server.Options{})}
	key := w.key(access.Worker, "ci").Secret
	var inside atomic.Int32
	var last atomic.Int64
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for round := range 3 {
				at, request := servers[(i+round)%2], id()
				var g reply
				for g.State != "acquired" {
					var err error
					g, err = at.call("POST", "/v1/locks/acquire", key, request, object{"keys": []string{"x"}})
					if err != nil || g.status != 200 && g.status != 202 {
						t.Errorf("%+v %v", g, err)
						return
					}
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d at once", n)
				}
				if before := last.Swap(g.Token); before >= g.Token {
					t.Errorf("token %d after %d", g.Token, before)
				}
				inside.Add(-1)
				if r, err := servers[i%2].call("POST", "/v1/locks/release", key, "", object{"lease": g.LeaseID, "token": g.Token}); err != nil || r.status != 200 {
					t.Errorf("%+v %v", r, err)
				}
			}
		})
	}
	all.Wait()
}

// TestOneKeyUnderItsOwner: also if the owner of the access key holds the lock itself,
// as a command does, only one of its clients works under it at a time.
func TestOneKeyUnderItsOwner(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Worker, "ci").Secret
	if _, err := lease.Acquire(t.Context(), w.st, lease.AcquireRequest{Keys: []string{"x"}, Owner: "ci"}); err != nil {
		t.Fatal(err)
	}
	g := w.must(200, "POST", "/v1/locks/acquire", key, id(), object{"keys": []string{"x"}, "wait": "0s"})
	w.must(423, "POST", "/v1/locks/acquire", key, id(), object{"keys": []string{"x"}, "wait": "0s"})
	w.must(200, "POST", "/v1/locks/renew", key, "", object{"lease": g.LeaseID, "token": g.Token})
	w.must(200, "POST", "/v1/locks/release", key, "", object{"lease": g.LeaseID, "token": g.Token})
	w.must(200, "POST", "/v1/locks/acquire", key, id(), object{"keys": []string{"x"}, "wait": "0s"})
}

// TestWaitForLock answers when the key is free.
func TestWaitForLock(t *testing.T) {
	w := newWorld(t)
	key := w.key(access.Worker, "ci").Secret
	g := w.must(200, "POST", "/v1/locks/acquire", key, id(), object{"keys": []string{"x"}})
	if r := w.must(200, "GET", "/v1/locks/wait?key=x&timeout=1ms", key, "", nil); !r.Locked {
		t.Errorf("%+v", r)
	}
	if r := w.must(200, "GET", fmt.Sprintf("/v1/locks/wait?key=x&since=%d", g.Token-1), key, "", nil); !r.Locked {
		t.Errorf("%+v", r)
	}
	done := make(chan reply)
	go func() {
		r, _ := w.call("GET", "/v1/locks/wait?key=x&timeout=50s", key, "", nil)
		done <- r
	}()
	w.must(200, "POST", "/v1/locks/release", key, "", object{"lease": g.LeaseID, "token": g.Token})
	if r := <-done; r.status != 200 || r.Locked {
		t.Errorf("%+v", r)
	}
	w.must(400, "GET", "/v1/locks/wait?key=x&timeout=51s", key, "", nil)
}
