package gitstore

// LimitFetch makes the largest answer of a server that is accepted small
// enough for a test.
func LimitFetch(s *Store, bytes int64) { s.server.git.limit = bytes }
