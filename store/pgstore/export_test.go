package pgstore

// Turn is the advisory lock of whoever commits.
func Turn(schema string) int64 { return newNames(schema).turn }
