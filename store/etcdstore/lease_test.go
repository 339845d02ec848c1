package etcdstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/internal/torture/long"
	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/etcdstore"
)

// over reports whether the ttl of a record is over, which is there still.
func over(t testing.TB, s driver.Store, key string, ttl time.Duration) bool {
	t.Helper()
	snap, err := s.Read(t.Context(), driver.Query{Keys: []string{key}})
	must(t, err)
	return overIn(t, snap, ttl)
}

// overIn is over for the one record of a snapshot.
func overIn(t testing.TB, snap driver.Snapshot, ttl time.Duration) bool {
	t.Helper()
	if len(snap.Records) != 1 {
		t.Fatalf("%d records instead of one", len(snap.Records))
	}
	return snap.Now.Sub(snap.Records[0].Time) >= ttl
}

func lasting(key string, ttl time.Duration) driver.Write {
	return driver.Write{Key: key, Value: []byte(`{}`), TTL: ttl}
}

// Records that share leases each live for their whole ttl, and not for ever.
func TestNoRecordEndsEarly(t *testing.T) {
	t.Parallel() // it mostly waits
	long.NotShort(t)
	const ttl, n = 2 * time.Second, 20
	c := one(t)
	prefix := newPrefix()
	s := open(t, c.URL(prefix))
	cl := client(t, c)
	ends := cl.Watch(t.Context(), "/"+prefix+"/record/lease/", clientv3.WithPrefix(), clientv3.WithFilterPut())

	began := map[string]time.Time{}
	start := time.Now()
	for i := range n {
		key := fmt.Sprintf("lease/%d", i)
		began[key] = time.Now()
		_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{lasting(key, ttl)}})
		must(t, err)
		time.Sleep(ttl / 10)
	}
	leases, err := cl.Leases(t.Context())
	must(t, err)
	if took := time.Since(start); len(leases.Leases) > n/2 && took < 2*n*ttl/10 { // else each comes too late for the lease of the one before
		t.Errorf("%d leases of etcd for %d commits", len(leases.Leases), n)
	}
	deadline := time.After(time.Minute)
	for len(began) > 0 {
		select {
		case r := <-ends:
			for _, e := range r.Events {
				key := strings.TrimSuffix(strings.TrimPrefix(string(e.Kv.Key), "/"+prefix+"/record/"), "\x00alive")
				if lived := time.Since(began[key]); lived < ttl {
					t.Fatalf("%s lived %v of %v", key, lived, ttl)
				}
				delete(began, key)
			}
		case <-deadline:
			t.Fatalf("%d records never end", len(began))
		}
	}
}

// A heartbeat moves the end of its record, and a record that is written again
// without a ttl stays.
func TestRenewed(t *testing.T) {
	t.Parallel() // it mostly waits
	long.NotShort(t)
	const ttl = 2 * time.Second
	c := one(t)
	s := open(t, c.URL(newPrefix()))
	for start := time.Now(); time.Since(start) < 2*ttl; time.Sleep(ttl / 3) {
		called := time.Now()
		_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{lasting("lease/a", ttl)}})
		must(t, err)
		if over(t, s, "lease/a", ttl) && time.Since(called) < ttl {
			t.Fatal("a record that is renewed is over")
		}
	}
	_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lease/a")}})
	must(t, err)
	time.Sleep(ttl + 2*time.Second)
	if get(t, s, "lease/a").Rev == 0 {
		t.Fatal("a record without a ttl went with a lease")
	}
}

// Who waits for a record wakes when its ttl is over: no poll, no other clock.
func TestWokenByExpiry(t *testing.T) {
	t.Parallel() // it mostly waits
	c := one(t)
	s := openWith(t, c.URL(newPrefix()), etcdstore.Options{Poll: time.Hour})
	called := time.Now()
	rev, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{lasting("lease/a", time.Second)}})
	must(t, err)
	must(t, s.Wait(t.Context(), []driver.Guard{{Key: "lock/a"}, {Key: "lease/a", Rev: rev}}))
	if lived := time.Since(called); lived < time.Second || !over(t, s, "lease/a", time.Second) {
		t.Fatalf("woken after %v", lived)
	}
}

// A lease that somebody revoked by hand ends the ttl of its records, and is in
// nobody's way afterwards.
func TestRevokedByHand(t *testing.T) {
	c := one(t)
	s := open(t, c.URL(newPrefix()))
	cl := client(t, c)
	for range 2 {
		_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{lasting("lease/a", time.Minute)}})
		must(t, err)
		leases, err := cl.Leases(t.Context())
		must(t, err)
		for _, l := range leases.Leases {
			_, err := cl.Revoke(t.Context(), l.ID)
			must(t, err)
		}
		if !over(t, s, "lease/a", time.Minute) {
			t.Fatal("the record is still alive")
		}
	}
}

// What expires between a look and the wait that follows it wakes the waiter too,
// and does so once.
func TestExpiredBeforeTheWait(t *testing.T) {
	c := one(t)
	s := openWith(t, c.URL(newPrefix()), etcdstore.Options{Poll: time.Hour})
	cl := client(t, c)
	rev, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{lasting("lease/a", time.Minute)}})
	must(t, err)
	if over(t, s, "lease/a", time.Minute) {
		t.Fatal("over at once")
	}
	leases, err := cl.Leases(t.Context())
	must(t, err)
	for _, l := range leases.Leases {
		_, err := cl.Revoke(t.Context(), l.ID)
		must(t, err)
	}
	guards := []driver.Guard{{Key: "lease/a", Rev: rev}}
	must(t, s.Wait(t.Context(), guards))
	if !over(t, s, "lease/a", time.Minute) {
		t.Fatal("woken before the end")
	}
	waited := make(chan error, 1)
	go func() { waited <- s.Wait(t.Context(), guards) }()
	select {
	case err := <-waited:
		t.Fatalf("woken again, by nothing: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	_, err = s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{lasting("lease/a", time.Minute)}})
	must(t, err)
	must(t, <-waited)
}

// Ranges with a limit count records, whatever stands beside them.
func TestRangesOfRecordsWithTTL(t *testing.T) {
	c := one(t)
	s := open(t, c.URL(newPrefix()))
	const n = 1300 // more than a page of them with their signs
	var writes []driver.Write
	for i := range n {
		w := put(fmt.Sprintf("lease/%04d", i))
		if i%3 > 0 {
			w.TTL = time.Hour
		}
		writes = append(writes, w)
	}
	_, err := s.Commit(t.Context(), driver.Batch{Writes: writes})
	must(t, err)
	for _, limit := range []int{0, 1, 2, 3, 4, 999, 1000, 1001, n, n + 1, -1, -2, -3, -4, -1000, -n, -n - 1} {
		snap, err := s.Read(t.Context(), driver.Query{Ranges: []driver.Range{{Prefix: "lease/", Limit: limit}}})
		must(t, err)
		want := writes
		switch {
		case limit > 0:
			want = writes[:min(n, limit)]
		case limit < 0:
			want = writes[max(0, n+limit):]
		}
		if len(snap.Records) != len(want) {
			t.Fatalf("limit %d: %d records, not %d", limit, len(snap.Records), len(want))
		}
		for i, r := range snap.Records {
			if r.Key != want[i].Key || snap.Now.Sub(r.Time) > 30*time.Minute {
				t.Fatalf("limit %d: record %d is %s, %v old", limit, i, r.Key, snap.Now.Sub(r.Time))
			}
		}
	}
}
