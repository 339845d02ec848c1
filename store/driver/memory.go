package driver

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// memoryTime is how long what was seen may serve for a guess. No server is
	// replaced by its backup in that time.
	memoryTime = 5 * time.Second
	maxMemory  = 512 // records of a generation
)

// A Memory is what a handle on a server has lately read and written. Whoever
// takes a lock and gives it back soon need not ask for what it has just written
// itself: [Query.Guess]. The zero value is empty.
//
// What is remembered of a record grows old more slowly than the record, so
// that no clock of ours, however fast, ends what the server's would not. What
// others change as well is asked for: a wrong guess costs more than a read.
type Memory struct {
	mu            sync.Mutex
	young, old    map[string]sighting
	clock, ticked time.Time // the store's, and when it was told
}

// A sighting is a record as it was at a revision.
type sighting struct {
	record Record // without a Rev: absent
	at     int64
	age    time.Duration // then,
	when   time.Time     // which was here
	life   time.Duration // for which it serves
	shared time.Time     // when somebody else was last seen to have changed it
}

// serves tells how long ago it was, and whether it is good for a guess.
func (s sighting) serves(now time.Time) (elapsed time.Duration, ok bool) {
	elapsed = now.Sub(s.when)
	return elapsed, elapsed <= s.life && now.Sub(s.shared) > memoryTime
}

// Read notes the answer to a query's keys.
func (m *Memory) Read(keys []string, s Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if told, ok := m.now(now); !ok || s.Now.After(told) {
		m.clock, m.ticked = s.Now, now
	}
	found := make(map[string]Record, len(s.Records))
	for _, r := range s.Records {
		found[r.Key] = r
	}
	for _, k := range keys {
		seen := sighting{record: found[k], at: s.Rev, age: max(0, s.Now.Sub(found[k].Time)), when: now, life: memoryTime}
		if before, ok := m.seen(k); ok && before.at <= s.Rev && before.record.Rev != seen.record.Rev {
			seen.shared = now
		}
		m.note(k, seen)
	}
}

// Committed notes what a commit has written, and that what it was guarded by
// was still so. What has a ttl is forgotten before its end, which is the store's
// to tell.
func (m *Memory) Committed(b Batch, rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, g := range b.Guards {
		if s, ok := m.seen(g.Key); ok && s.record.Rev == g.Rev && s.at < rev {
			s.at = rev
			m.young[g.Key] = s
		}
	}
	for _, w := range b.Writes {
		s := sighting{at: rev, when: now, life: memoryTime}
		if w.TTL > 0 {
			s.life = min(s.life, w.TTL/10*9)
		}
		if w.Value != nil {
			s.record = Record{Key: w.Key, Rev: rev, Value: w.Value}
		}
		m.note(w.Key, s)
	}
}

// Forget makes no more guesses of what a refused commit or a wait has shown to
// be old in part. The next read shows in which.
func (m *Memory) Forget(guards []Guard) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range guards {
		if s, ok := m.seen(g.Key); ok {
			s.life = -1
			m.young[g.Key] = s
		}
	}
}

// Recall answers a query that allows a guess, if all it asks for is known.
func (m *Memory) Recall(q Query) (Snapshot, bool) {
	if !q.Guess || len(q.Ranges) > 0 {
		return Snapshot{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	told, ok := m.now(now)
	snap := Snapshot{Rev: math.MaxInt64, Now: told, Old: true}
	for _, k := range q.Keys {
		s, seen := m.seen(k)
		elapsed, serves := s.serves(now)
		switch {
		case !seen && slices.Contains(q.New, k):
			continue
		case !ok || !seen || !serves:
			return Snapshot{}, false
		}
		snap.Rev = min(snap.Rev, s.at)
		if s.record.Rev != 0 {
			r := s.record
			r.Value, r.Time = slices.Clone(r.Value), told.Add(-s.age-elapsed+elapsed/16)
			snap.Records = append(snap.Records, r)
		}
	}
	return snap, snap.Rev >= q.Since && snap.Rev < math.MaxInt64
}

// now is the store's clock, if it was told lately.
func (m *Memory) now(here time.Time) (time.Time, bool) {
	elapsed := here.Sub(m.ticked)
	return m.clock.Add(elapsed), !m.ticked.IsZero() && elapsed <= memoryTime
}

func (m *Memory) seen(key string) (sighting, bool) {
	if s, ok := m.young[key]; ok {
		return s, true
	}
	s, ok := m.old[key]
	return s, ok
}

// note adds a sighting, with a copy of its value: the caller may do what he
// likes with his. What is known of a later revision stays.
func (m *Memory) note(key string, s sighting) {
	before, _ := m.seen(key)
	if before.at > s.at {
		return
	}
	if s.shared.IsZero() {
		s.shared = before.shared
	}
	if m.young == nil || len(m.young) >= maxMemory {
		m.young, m.old = map[string]sighting{}, m.young
	}
	s.record.Value = slices.Clone(s.record.Value)
	m.young[key] = s
}
