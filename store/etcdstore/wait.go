package etcdstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tasklock/tasklock/store/driver"
)

// Wait implements driver.Store: it looks, then watches from the revision of that
// look on, so it misses nothing. When the ttl of a record ends, etcd drops its
// sign, which is an event like any other.
func (s *Store) Wait(ctx context.Context, guards []driver.Guard) error {
	living, done, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	for {
		at, holds, err := s.look(living, guards)
		if err != nil {
			return s.life.Ended(ctx, err)
		}
		if !holds || s.watch(living, guards, at+1) {
			return nil
		}
		if living.Err() != nil {
			return s.life.Ended(ctx, living.Err())
		}
	}
}

// look says whether the guards hold, and from which of etcd's revisions to watch
// them.
func (s *Store) look(ctx context.Context, guards []driver.Guard) (at int64, holds bool, err error) {
	for chunk := range slices.Chunk(guards, driver.MaxGuards) {
		rev, holds, err := s.check(ctx, chunk)
		if err != nil || !holds {
			return 0, false, err
		}
		if at == 0 {
			at = rev
		}
	}
	return at, true, nil
}

func (s *Store) check(ctx context.Context, guards []driver.Guard) (at int64, holds bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for {
		t := txn{store: s, format: s.known()}
		if !t.guard(guards) {
			return 0, false, nil
		}
		resp, err := s.client.Txn(ctx).If(t.conditions...).Then(s.signs(guards)...).Else(clientv3.OpGet(s.keys.format())).Commit()
		if err != nil {
			return 0, false, s.failed("read", err)
		}
		if resp.Succeeded {
			return resp.Header.Revision, !s.anyExpired(t.format, guards, resp), nil
		}
		if err := s.refused(t.format, resp); !errors.Is(err, errEra) {
			return 0, false, ignoreConflict(err)
		}
	}
}

// signs asks which of the guarded records are alive.
func (s *Store) signs(guards []driver.Guard) (ops []clientv3.Op) {
	for _, g := range guards {
		ops = append(ops, clientv3.OpGet(s.keys.alive(g.Key), clientv3.WithCountOnly()))
	}
	return ops
}

// anyExpired reports whether a record that this handle last saw alive has
// expired: what the caller read is no longer true.
func (s *Store) anyExpired(f *format, guards []driver.Guard, signs *clientv3.TxnResponse) (expired bool) {
	for i, g := range guards {
		mod, _ := f.modOf(g.Rev)
		if !g.IsKind() && signs.Responses[i].GetResponseRange().Count == 0 {
			expired = s.memory.expired(g.Key, mod) || expired
		}
	}
	return expired
}

func ignoreConflict(err error) error {
	if errors.Is(err, driver.ErrConflict) {
		return nil
	}
	return err
}

// watch returns true when something happened to one of the guards since that
// revision, and false when it is time to look again: after a while, and when a
// watch ended, because the member lost its leader or its past was compacted away.
func (s *Store) watch(ctx context.Context, guards []driver.Guard, from int64) bool {
	ctx, cancel := context.WithTimeout(ctx, s.poll/2+rand.N(s.poll))
	var watches sync.WaitGroup
	defer watches.Wait()
	defer cancel()
	news := make(chan bool, len(guards))
	for _, g := range guards {
		key, opts := s.keys.record(g.Key), []clientv3.OpOption{clientv3.WithRev(from), clientv3.WithRange(s.keys.upTo(g.Key))}
		if g.IsKind() {
			key, opts = s.keys.kind(g.Key), opts[:1]
		}
		watches.Go(func() { news <- s.changed(ctx, key, opts) })
	}
	select {
	case happened := <-news:
		if !happened && ctx.Err() == nil { // slow down repeated failures
			_ = driver.Sleep(ctx, 200*time.Millisecond)
		}
		return happened
	case <-ctx.Done():
		return false
	}
}

// changed waits for an event, and says whether there was one.
func (s *Store) changed(ctx context.Context, key string, opts []clientv3.OpOption) bool {
	for r := range s.client.Watch(clientv3.WithRequireLeader(ctx), key, opts...) {
		switch {
		case len(r.Events) > 0:
			return true
		case r.Err() != nil:
			return false
		}
	}
	return false
}
