package etcdstore

import (
	"bytes"
	"math"
	"slices"
	"sync"
	"time"

	mvccpb "go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

const (
	// memoryTime is how long a remembered record may answer a query that allows
	// old answers. Nobody can restore a cluster from its backup in that time.
	memoryTime = 5 * time.Second
	maxMemory  = 512 // records
)

// A memory is what this handle has recently read, written, or found unchanged. A
// process that takes a lock and releases it soon need not ask for what it has
// just written.
type memory struct {
	mu   sync.Mutex
	seen map[string]sighting
}

// A sighting is a record as it was from one of etcd's revisions to another.
type sighting struct {
	kept
	from, to int64
	when     host.Moment // also counts time that the machine sleeps
}

func (s sighting) mod() int64 {
	if s.kv == nil {
		return 0
	}
	return s.kv.ModRevision
}

// note adds a sighting. A later one stays.
func (m *memory) note(key string, k kept, at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.seen[key]
	now := sighting{kept: k, from: at, to: at, when: host.Now()}
	switch {
	case ok && old.to > at:
		return
	case k.kv != nil: // a copy: the caller may change its own
		now.kv = &mvccpb.KeyValue{Key: k.kv.Key, Value: bytes.Clone(k.kv.Value), ModRevision: k.kv.ModRevision}
		now.from = k.kv.ModRevision
	}
	if m.seen == nil || len(m.seen) >= maxMemory {
		m.seen = map[string]sighting{}
	}
	m.seen[key] = now
}

// unchanged notes that a record is still at that revision of etcd's. An absent
// record may have existed in between.
func (m *memory) unchanged(key string, mod, at int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.seen[key]
	if !ok || s.mod() != mod || s.to >= at {
		return
	}
	if s.to, s.when = at, host.Now(); mod == 0 {
		s.from = at
	}
	m.seen[key] = s
}

// forget drops records that turned out to be wrong.
func (m *memory) forget(guards []driver.Guard) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range guards {
		delete(m.seen, g.Key)
	}
}

// committed notes what a commit at that revision has shown.
func (m *memory) committed(t *txn, b driver.Batch, now time.Time, at int64) {
	written := map[string]bool{}
	for _, w := range b.Writes {
		written[w.Key] = true
		k := kept{alive: w.TTL > 0}
		if w.Value != nil {
			k.kv = &mvccpb.KeyValue{Key: []byte(t.store.keys.record(w.Key)), Value: []byte(seal(w.Value, now, w.TTL)), ModRevision: at}
		}
		m.note(w.Key, k, at)
	}
	for _, g := range b.Guards {
		if mod, whole := t.format.modOf(g.Rev); whole && !g.IsKind() && !written[g.Key] {
			m.unchanged(g.Key, mod, at)
		}
	}
}

// expired reports whether a record existed at that revision of etcd's, alive when
// it was last seen. It forgets the record: the next question goes to the server.
func (m *memory) expired(key string, mod int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.seen[key]
	if !ok || s.mod() != mod || !s.alive {
		return false
	}
	delete(m.seen, key)
	return true
}

// recall answers a query from memory, if the query allows that and everything it
// asks for is known: at one revision, unless the caller guards it all. It does not
// answer for a record whose ttl may have passed.
func (m *memory) recall(q driver.Query) (records []kept, at int64, ok bool) {
	if q.Since == 0 || len(q.Ranges) > 0 {
		return nil, 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at = math.MaxInt64
	from := int64(0)
	for _, k := range q.Keys {
		s, ok := m.seen[k]
		if !ok && q.Guarded && slices.Contains(q.New, k) {
			continue
		}
		if !ok || host.Now().Since(s.when) > memoryTime || s.doubtful() {
			return nil, 0, false
		}
		at, from = min(at, s.to), max(from, s.from)
		if s.kv != nil {
			kv := &mvccpb.KeyValue{Key: s.kv.Key, Value: bytes.Clone(s.kv.Value), ModRevision: s.kv.ModRevision}
			records = append(records, kept{kv: kv, alive: s.alive})
		}
	}
	return records, at, at < math.MaxInt64 && (q.Guarded || from <= at)
}

// doubtful reports whether a record that was seen alive may have expired since.
func (s sighting) doubtful() bool {
	if s.kv == nil || !s.alive {
		return false
	}
	_, st, err := unseal(s.kv.Value)
	return err != nil || st.TTL > 0 && time.Since(st.At) >= st.ttl()
}
