package gitstore

import "time"

// LimitFetch makes the largest answer of a server that is accepted small
// enough for a test.
func LimitFetch(s *Store, bytes int64) { s.server.git.limit = bytes }

// LimitTime makes the time of a command of git short enough for a test, once
// the store is open.
func LimitTime(s *Store, d time.Duration) { s.server.git.timeout = d }
