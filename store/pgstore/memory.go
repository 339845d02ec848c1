package pgstore

import (
	"slices"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/host"
	"github.com/tasklock/tasklock/store/driver"
)

const (
	// memoryTime is how long a remembered record may answer. The store's clock in
	// such an answer is late by as much.
	memoryTime = 500 * time.Millisecond
	maxMemory  = 512 // records
)

// A memory is what this handle has recently read, written, or found unchanged. It
// answers callers that guard everything they use (driver.Query.Guarded): a
// process that takes a lock and releases it soon need not ask for what it has just
// written.
type memory struct {
	mu     sync.Mutex
	seen   map[string]sighting // since half of the memory was full, and
	before map[string]sighting // as many before: what is used again stays
	view   view                // the newest
}

// A view is what every answer of the server carries.
type view struct {
	rev   int64       // of the store
	now   time.Time   // the server's clock
	life  int64       // of the server
	line  int64       // its timeline
	asked host.Moment // not after the server answered; it counts time that the machine sleeps
}

// A sighting is a record as it was at a revision of the store. Without a revision
// of its own it is absent.
type sighting struct {
	record driver.Record
	at     int64
	asked  host.Moment
}

func (m *memory) find(key string) (sighting, bool) {
	s, ok := m.seen[key]
	if !ok {
		s, ok = m.before[key]
	}
	return s, ok
}

func (m *memory) keep(key string, s sighting) {
	if m.seen == nil || len(m.seen) >= maxMemory/2 {
		m.seen, m.before = map[string]sighting{}, m.seen
	}
	m.seen[key] = s
}

// heard notes a view. In another life of the server, on another timeline, or if the
// revision is lower than before, nothing that was seen counts any more.
func (m *memory) heard(v view) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case v.life != m.view.life || v.line != m.view.line || v.rev < m.view.rev && v.now.Sub(m.view.now) > memoryTime: // else it was overtaken
		m.seen, m.before = nil, nil
		m.view = v
	case v.rev >= m.view.rev:
		m.view = v
	}
}

// note adds what was seen of a record in a view. A later sighting stays.
func (m *memory) note(r driver.Record, v view) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last, _ := m.find(r.Key); v.life != m.view.life || v.line != m.view.line || last.at > v.rev {
		return
	}
	r.Value = slices.Clone(r.Value) // the caller may change its own
	m.keep(r.Key, sighting{record: r, at: v.rev, asked: v.asked})
}

// unchanged notes that a record is still at a revision of its own.
func (m *memory) unchanged(g driver.Guard, v view) {
	if g.Rev == 0 {
		m.note(driver.Record{Key: g.Key}, v)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.find(g.Key); ok && s.record.Rev == g.Rev && s.at <= v.rev {
		s.at, s.asked = v.rev, v.asked
		m.keep(g.Key, s)
	}
}

// committed notes what an acknowledged commit has shown.
func (m *memory) committed(b driver.Batch, rev int64, v view) {
	v.rev = rev
	for _, g := range b.Guards {
		if !g.IsKind() {
			m.unchanged(g, v)
		}
	}
	for _, w := range b.Writes {
		r := driver.Record{Key: w.Key}
		if w.Value != nil {
			r.Rev, r.Time, r.Value = rev, v.now, w.Value
		}
		m.note(r, v)
	}
}

// forget drops what a batch is about: it was wrong, or nobody knows what is true.
func (m *memory) forget(b driver.Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, seen := range []map[string]sighting{m.seen, m.before} {
		for _, g := range b.Guards {
			delete(seen, g.Key)
		}
		for _, w := range b.Writes {
			delete(seen, w.Key)
		}
	}
}

// recall answers a query from memory, if the caller guards everything and all of it
// is known, or new.
func (m *memory) recall(q driver.Query) (driver.Snapshot, bool) {
	if q.Since == 0 || !q.Guarded || len(q.Ranges) > 0 {
		return driver.Snapshot{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := host.Now()
	snap := driver.Snapshot{Rev: m.view.rev, Now: m.view.now, Old: true}
	for _, key := range q.Keys {
		s, ok := m.find(key)
		switch {
		case !ok && slices.Contains(q.New, key):
			continue
		case !ok || s.at < q.Since || now.Since(s.asked) > memoryTime:
			return driver.Snapshot{}, false
		}
		if snap.Rev = min(snap.Rev, s.at); s.record.Rev > 0 {
			r := s.record
			r.Value = slices.Clone(r.Value)
			snap.Records = append(snap.Records, r)
		}
	}
	return snap, now.Since(m.view.asked) <= memoryTime
}
