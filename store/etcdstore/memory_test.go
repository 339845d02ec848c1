package etcdstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/internal/etcdtest"
	"github.com/tasklock/tasklock/store/driver"
)

// What is answered from memory was true, all of it at the revision it names:
// etcd itself still knows what it was.
func TestMemory(t *testing.T) {
	c := etcdtest.Start(t, 1, "--unsafe-no-fsync")
	var stores []*Store
	for range 2 {
		s, err := Open(t.Context(), c.URL("memory"), &Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores = append(stores, s)
	}
	r := rand.New(rand.NewPCG(5, 5))
	keys := []string{"lock/a", "lock/b", "lock/c"}
	some := func() []string {
		i, n := r.Perm(len(keys)), 1+r.IntN(len(keys))
		var out []string
		for _, j := range i[:n] {
			out = append(out, keys[j])
		}
		return out
	}
	last := map[*Store]map[string]int64{stores[0]: {}, stores[1]: {}}
	old, conflicts := 0, 0
	rounds := 2000
	if testing.Short() {
		rounds = 400
	}
	for i := range rounds {
		s := stores[r.IntN(2)]
		q := driver.Query{Keys: some(), Since: int64(r.IntN(2))}
		snap, err := s.Read(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if snap.Old {
			old++
			wasTrue(t, s, q.Keys, snap)
		}
		for _, k := range q.Keys {
			last[s][k] = 0
		}
		for _, rec := range snap.Records {
			last[s][rec.Key] = rec.Rev
			copy(rec.Value, "scribble")
		}
		b := driver.Batch{Writes: []driver.Write{{Key: q.Keys[0], Value: fmt.Appendf(nil, `{"n":%d}`, i)}}}
		if r.IntN(3) == 0 {
			b.Writes[0].Value = nil
		}
		for _, k := range q.Keys {
			b.Guards = append(b.Guards, driver.Guard{Key: k, Rev: last[s][k]})
		}
		switch _, err := s.Commit(t.Context(), b); {
		case errors.Is(err, driver.ErrConflict):
			if !snap.Old {
				t.Fatal("nobody else works, and a commit on what was just read conflicts")
			}
			conflicts++
		case err != nil:
			t.Fatal(err)
		}
	}
	t.Logf("%d answers from memory, %d of them old", old, conflicts)
	if old == 0 || conflicts == 0 {
		t.Error("the test has shown nothing")
	}
}

func wasTrue(t *testing.T, s *Store, keys []string, snap driver.Snapshot) {
	t.Helper()
	var ops []clientv3.Op
	for _, k := range keys {
		ops = append(ops, clientv3.OpGet(s.keys.record(k), clientv3.WithRev(snap.Rev)))
	}
	resp, err := s.client.Txn(t.Context()).Then(ops...).Commit()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]driver.Record{}
	for _, r := range snap.Records {
		told[r.Key] = r
	}
	for i, k := range keys {
		kvs := resp.Responses[i].GetResponseRange().Kvs
		r, there := told[k]
		if there != (len(kvs) > 0) || there && r.Rev != kvs[0].ModRevision {
			t.Fatalf("%s at %d: told %v at %d, etcd says %v", k, snap.Rev, there, r.Rev, kvs)
		}
		if !there {
			continue
		}
		if value, _, err := unseal(kvs[0].Value); err != nil || string(value) != string(r.Value) {
			t.Fatalf("%s at %d: told %s, etcd says %s (%v)", k, snap.Rev, r.Value, value, err)
		}
	}
}
