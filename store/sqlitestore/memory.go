package sqlitestore

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/local"
	"github.com/tasklock/tasklock/store/driver"
)

// A memory is what this process has lately read and written. It answers callers
// that guard everything they use (driver.Query.Guarded): a process that takes a
// lock and releases it soon need not read what it has just written.
//
// A commit must know more: that a record is unchanged. SQLite counts the commits
// of other connections, whoever makes them (PRAGMA data_version). While a
// connection finds the same number, the records that it saw with that number are
// as they were, and it need not look at them again.
type memory struct {
	mu   sync.Mutex
	seen map[string]remembered
}

// A sighting is a record as somebody saw it. Nobody changes one: many share it.
type sighting struct {
	rev     int64       // 0: there is none
	written local.Stamp // with value
	value   []byte
}

var absent = &sighting{}

// remembered is a sighting, and when it was true.
type remembered struct {
	*sighting
	at      int64 // revision of the store
	version int64 // of the writer's connection, which saw the record; 0: another one saw it
	when    time.Time
}

const (
	memoryTime = time.Second // how long an unproven sighting may answer
	maxMemory  = 1024        // records
)

// note adds sightings of one moment. A later one stays.
func (m *memory) note(seen map[string]*sighting, at, version int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen == nil || len(m.seen)+len(seen) > maxMemory {
		m.seen = make(map[string]remembered)
	}
	if len(seen) > maxMemory {
		return
	}
	now := time.Now()
	for key, s := range seen {
		old, known := m.seen[key]
		if old.at > at {
			continue
		}
		r := remembered{s, at, version, now}
		if version == 0 && known && s.same(old.sighting) {
			r.version = old.version
		}
		m.seen[key] = r
	}
}

// exact returns a record that is still so if the writer's connection is at that
// version.
func (m *memory) exact(key string, version int64) (s *sighting, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.seen[key]
	return r.sighting, ok && r.version == version && version > 0
}

// forget drops everything: nobody knows what is true.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = nil
}

// recall answers a query if the caller guards everything and all of it is known,
// or new.
func (m *memory) recall(q driver.Query) (driver.Snapshot, bool) {
	if q.Since == 0 || !q.Guarded || len(q.Ranges) > 0 {
		return driver.Snapshot{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	snap := driver.Snapshot{Old: true, Records: make([]driver.Record, 0, len(q.Keys))}
	now := local.Clock()
	snap.Now = now.Moment()
	for _, key := range q.Keys {
		s, ok := m.seen[key]
		switch {
		case !ok && slices.Contains(q.New, key):
			continue
		case !ok || s.at < q.Since || time.Since(s.when) > memoryTime:
			return driver.Snapshot{}, false
		}
		if snap.Rev == 0 || s.at < snap.Rev {
			snap.Rev = s.at
		}
		if s.rev > 0 {
			snap.Records = append(snap.Records, s.record(key, now))
		}
	}
	return snap, snap.Rev > 0
}

// same compares records, not revisions alone: a person may edit a value and leave
// its revision.
func (s *sighting) same(o *sighting) bool {
	return s.rev == o.rev && s.written == o.written && bytes.Equal(s.value, o.value)
}

func (s *sighting) record(key string, now local.Stamp) driver.Record {
	return driver.Record{Key: key, Rev: s.rev, Time: s.written.Time(now), Value: bytes.Clone(s.value)}
}
