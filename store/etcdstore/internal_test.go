package etcdstore

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"
)

// Ours and etcd's revisions lead to each other, and ours grow with etcd's
// whatever eras begin.
func TestErasProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &format{Version: 1, Eras: []era{{}}}
		mod := int64(0)
		revs := map[int64]int64{}
		last := int64(0)
		for range rapid.IntRange(1, 30).Draw(t, "commits") {
			mod += rapid.Int64Range(1, 5).Draw(t, "step")
			if rapid.IntRange(0, 4).Draw(t, "raise") == 0 {
				f = f.raised(f.last().Base + rapid.Int64Range(1, 1<<40).Draw(t, "by")).written(mod)
			}
			rev := f.rev(mod)
			if rev <= last {
				t.Fatalf("revision %d after %d", rev, last)
			}
			last, revs[mod] = rev, rev
		}
		for mod, rev := range revs {
			if got := f.rev(mod); got != rev {
				t.Fatalf("etcd's %d was %d and became %d", mod, rev, got)
			}
			if got, whole := f.modOf(rev); got != mod || !whole {
				t.Fatalf("%d leads back to %d, not to %d", rev, got, mod)
			}
		}
		rev := rapid.Int64Range(0, last+5).Draw(t, "any")
		at, whole := f.modOf(rev)
		if whole && f.rev(at) != rev || !whole && (f.rev(at) > rev || f.rev(at+1) <= rev) {
			t.Fatalf("%d leads to %d (%v), which is %d; the next is %d", rev, at, whole, f.rev(at), f.rev(at+1))
		}
	})
}

// The format of a restored cluster counts, although it stands at a lower
// revision than the one that was known: every commit asks for it.
func TestLearn(t *testing.T) {
	s := &Store{}
	known := (&format{Cluster: "c", Lead: 7, Eras: []era{{}}}).written(4000)
	s.learn(known)
	if s.learn((&format{Cluster: "c", Lead: 7, Eras: []era{{}}}).written(3000)); s.known() != known {
		t.Error("an older one of the same cluster was kept")
	}
	for _, f := range []*format{{Cluster: "d", Lead: 7, Eras: []era{{}}}, {Cluster: "d", Lead: -3000, Eras: []era{{}}}} {
		f = f.written(3001)
		if s.learn(f); s.known() != f {
			t.Errorf("%+v was not learnt", f)
		}
	}
}

// Whatever fits into a batch fits into a Txn, by etcd's own count.
func TestNest(t *testing.T) {
	for _, conditions := range []int{0, 1, 42, 43, 101} {
		for _, n := range []int{0, 1, 100, 127, 128, 129, 300, 4000, 4100, 8000} {
			ops := make([]clientv3.Op, n)
			for i := range ops {
				ops[i] = clientv3.OpDelete("k")
			}
			leaves := 0
			count(t, nest(ops, conditions), conditions, maxOps, &leaves)
			if leaves != n {
				t.Errorf("%d conditions, %d operations: %d came out", conditions, n, leaves)
			}
		}
	}
}

// count checks a Txn as etcd does: what it uses up is missing further down.
func count(t *testing.T, ops []clientv3.Op, conditions, most int, leaves *int) {
	t.Helper()
	used := max(len(ops), conditions)
	if used > most {
		t.Fatalf("%d operations where %d are allowed", used, most)
	}
	for _, op := range ops {
		if !op.IsTxn() {
			*leaves++
			continue
		}
		_, then, _ := op.Txn()
		count(t, then, 0, most-used, leaves)
	}
}

func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{"3.4.99": true, "3.5.0": true, "3.5.12": true, "3.5.13": false, "3.6.0-rc.1": false, "3.7.3": false, "4.0.0": false, "": false, "x": false} {
		if older(version, soundLeases) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}
