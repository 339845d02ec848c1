package etcdstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/store/driver"
	"github.com/tasklock/tasklock/store/etcdstore"
)

func lasting(key string, ttl time.Duration) driver.Write {
	return driver.Write{Key: key, Value: []byte(`{}`), TTL: ttl}
}

// Records that share leases each live for their whole ttl, and not for ever.
func TestNoRecordEndsEarly(t *testing.T) {
	t.Parallel() // it mostly waits
	notShort(t)
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
				key := strings.TrimPrefix(string(e.Kv.Key), "/"+prefix+"/record/")
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
	notShort(t)
	const ttl = 2 * time.Second
	c := one(t)
	s := open(t, c.URL(newPrefix()))
	for start := time.Now(); time.Since(start) < 2*ttl; time.Sleep(ttl / 3) {
		called := time.Now()
		_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{lasting("lease/a", ttl)}})
		must(t, err)
		if get(t, s, "lease/a").Rev == 0 && time.Since(called) < ttl {
			t.Fatal("a record that is renewed is gone")
		}
	}
	_, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{put("lease/a")}})
	must(t, err)
	time.Sleep(ttl + 2*time.Second)
	if get(t, s, "lease/a").Rev == 0 {
		t.Fatal("a record without a ttl went with a lease")
	}
}

// Who waits for a record wakes when etcd drops it: no poll, no other clock.
func TestWokenByExpiry(t *testing.T) {
	t.Parallel() // it mostly waits
	c := one(t)
	s := openWith(t, c.URL(newPrefix()), etcdstore.Options{Poll: time.Hour})
	called := time.Now()
	rev, err := s.Commit(t.Context(), driver.Batch{Writes: []driver.Write{lasting("lease/a", time.Second)}})
	must(t, err)
	must(t, s.Wait(t.Context(), []driver.Guard{{Key: "lock/a"}, {Key: "lease/a", Rev: rev}}))
	if lived := time.Since(called); lived < time.Second || get(t, s, "lease/a").Rev != 0 {
		t.Fatalf("woken after %v", lived)
	}
}

// A lease that somebody revoked by hand takes its records with it, and is in
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
		if get(t, s, "lease/a").Rev != 0 {
			t.Fatal("the record is still there")
		}
	}
}
