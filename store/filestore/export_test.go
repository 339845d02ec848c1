package filestore

// SetLimit makes the journal start over when it has that many bytes.
func (s *Store) SetLimit(bytes int64) { s.limit = bytes }

// FileOf is the path of a key's file in its store.
func FileOf(key string) string { return fileOf(key) }
