package gitstore

import "time"

// LimitFetch makes the largest answer of a server that is accepted small
// enough for a test.
func LimitFetch(s *Store, bytes int64) { s.server.git.limit = bytes }

// LimitTime makes the time of a command of git short enough for a test, once
// the store is open.
func LimitTime(s *Store, d time.Duration) { s.server.git.timeout = d }

// RecordsRead is how many records a store has read since it was opened.
func RecordsRead(s *Store) int {
	s.objects.mu.Lock()
	defer s.objects.mu.Unlock()
	return len(s.objects.records)
}
