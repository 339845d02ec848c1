package etcdstore

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/store/driver"
)

// Commit implements driver.Store: one Txn. Commits of one process run in
// parallel, not together: etcd groups what arrives at the same time, and
// operations in one Txn would share a revision.
func (s *Store) Commit(ctx context.Context, b driver.Batch) (int64, error) {
	living, done, err := s.call(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	if err := b.Check(); err != nil {
		return 0, err
	}
	for {
		f, err := s.proven(living)
		if err != nil {
			return 0, s.life.Ended(ctx, err)
		}
		rev, err := s.commit(living, b, f)
		switch {
		case errors.Is(err, rpctypes.ErrLeaseNotFound): // somebody revoked it, or we slept
			s.leases.drop()
		case errors.Is(err, errEra) && s.known().value == f.value:
			return 0, driver.ErrConflict
		case !errors.Is(err, errEra):
			return rev, s.life.Ended(ctx, err)
		}
	}
}

// errEra: the format has changed, nothing was written.
var errEra = errors.New("a new era has begun")

func (s *Store) commit(ctx context.Context, b driver.Batch, f *format) (int64, error) {
	t := txn{store: s, format: f}
	if !t.guard(b.Guards) {
		return 0, driver.ErrConflict
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	now := time.Now()
	if err := t.write(ctx, b.Writes, now); err != nil {
		return 0, err
	}
	if len(b.Writes) > 0 {
		if err := t.lift(ctx, b.Floor); err != nil {
			return 0, err
		}
	}
	resp, err := s.client.Txn(ctx).
		If(t.conditions...).
		Then(nest(t.ops, len(t.conditions))...).
		Else(clientv3.OpGet(s.keys.format())).
		Commit()
	if err != nil {
		return 0, s.failed("commit", err)
	}
	if !resp.Succeeded {
		s.memory.forget(b.Guards)
		return 0, s.refused(f, resp)
	}
	s.memory.committed(&t, b, now, resp.Header.Revision)
	s.saw(resp.Header.Revision)
	if t.raised != nil {
		f = t.raised.written(resp.Header.Revision)
		s.learn(f)
	}
	if s.lines.doubtful() { // it may have gone to a restored cluster
		if f, err = s.proven(ctx); err != nil {
			return 0, err
		}
	}
	return f.rev(resp.Header.Revision), nil
}

// refused finds the condition that did not hold: a guard, or that on the format.
func (s *Store) refused(f *format, resp *clientv3.TxnResponse) error {
	now, err := parseFormat(s.keys.format(), resp.Responses[0].GetResponseRange().Kvs)
	if err != nil {
		return err
	}
	if now.value == f.value {
		return driver.ErrConflict
	}
	s.learn(now)
	return errEra
}

// A txn is a batch as etcd's conditions and operations.
type txn struct {
	store      *Store
	format     *format
	conditions []clientv3.Cmp
	ops        []clientv3.Op
	raised     *format // written by this commit
}

// guard turns guards into conditions. It reports whether they can hold.
func (t *txn) guard(guards []driver.Guard) bool {
	keys := t.store.keys
	t.conditions = []clientv3.Cmp{t.format.unchanged(keys.format())}
	for _, g := range guards {
		mod, whole := t.format.modOf(g.Rev)
		switch {
		case g.IsKind():
			t.conditions = append(t.conditions, clientv3.Compare(clientv3.ModRevision(keys.kind(g.Key)), "<", mod+1))
		case !whole:
			return false
		default:
			t.conditions = append(t.conditions, clientv3.Compare(clientv3.ModRevision(keys.record(g.Key)), "=", mod))
		}
	}
	return true
}

// write turns writes into operations. It marks each kind as changed: a deleted
// record leaves nothing else behind.
func (t *txn) write(ctx context.Context, writes []driver.Write, now time.Time) error {
	keys, kinds := t.store.keys, map[string]bool{}
	for _, w := range writes {
		if kind := driver.Kind(w.Key); !kinds[kind] {
			kinds[kind] = true
			t.ops = append(t.ops, clientv3.OpPut(keys.kind(kind), ""))
		}
		switch {
		case w.Value == nil:
			t.ops = append(t.ops, clientv3.OpDelete(keys.record(w.Key), clientv3.WithRange(keys.upTo(w.Key))))
		case w.TTL > 0:
			id, err := t.store.lease(ctx, w.TTL)
			if err != nil {
				return err
			}
			t.ops = append(t.ops, clientv3.OpPut(keys.record(w.Key), seal(w.Value, now, w.TTL)),
				clientv3.OpPut(keys.alive(w.Key), "", clientv3.WithLease(id)))
		default:
			t.ops = append(t.ops, clientv3.OpPut(keys.record(w.Key), seal(w.Value, now, 0)))
		}
	}
	return nil
}

// lift begins a new era if the commit's revision might be below the floor.
func (t *txn) lift(ctx context.Context, floor int64) error {
	if floor == 0 {
		return nil
	}
	resp, err := t.store.client.Get(ctx, t.store.keys.format(), clientv3.WithKeysOnly())
	if err != nil {
		return t.store.failed("read", err)
	}
	next, last := resp.Header.Revision+1, t.format.last().Base
	if next+last >= floor {
		return nil
	}
	t.raised = t.format.raised(floor - next)
	t.ops = append(t.ops, clientv3.OpPut(t.store.keys.format(), t.raised.encode()))
	return nil
}
