package filestore

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// A memory keeps the records that this process has just read or written, as they
// are at one place of the journal. A commit reads none of them a second time, and
// a transaction that may begin on old data (Query.Since) reads none that
// the last one wrote. What others commit comes from the journal. The journal does
// not show a file that a person removes, so nothing is remembered for long.
type memory struct {
	mu      sync.Mutex
	gen     uint64 // of the journal
	end     int64  // the place in it
	records map[string]remembered
}

// A remembered record; without a value there is none.
type remembered struct {
	record
	at time.Time // when it was read or written
}

const (
	remember    = time.Second
	maxRemember = 1024
)

// follow moves the memory to the place of st. It reports false if the memory is
// ahead of st: then it is of no use to the caller.
func (m *memory) follow(s *Store, st state) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.gen == st.Generation && m.end == st.End:
		return true
	case m.gen > st.Generation || m.gen == st.Generation && m.end > st.End:
		return false
	case m.gen == st.Generation && len(m.records) > 0:
		if j, err := s.slice(st, m.end); err == nil {
			if last, err := j.last(0); err == nil {
				m.move(st, slices.Collect(maps.Values(last)))
				return true
			}
		}
	}
	m.records = nil
	m.gen, m.end = st.Generation, st.End
	return true
}

// wrote notes a commit of this process, which brought the journal from one state
// to the next.
func (m *memory) wrote(from, to state, records []record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gen == from.Generation && m.end == from.End {
		m.move(to, records)
	}
}

func (m *memory) move(to state, records []record) {
	m.gen, m.end = to.Generation, to.End
	for _, r := range records {
		m.add(r)
	}
}

// saw notes what the file of a record holds at st.
func (m *memory) saw(st state, r record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gen == st.Generation && m.end == st.End {
		m.add(r)
	}
}

func (m *memory) add(r record) {
	if m.records == nil || len(m.records) >= maxRemember {
		m.records = make(map[string]remembered)
	}
	m.records[r.key] = remembered{r, time.Now()}
}

// get returns what is known of a key at st. Its value belongs to the memory.
func (m *memory) get(st state, key string) (r record, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gen != st.Generation || m.end != st.End {
		return record{}, false
	}
	found, ok := m.records[key]
	if !ok || time.Since(found.at) > remember {
		return record{}, false
	}
	return found.record, true
}
