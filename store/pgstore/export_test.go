package pgstore

// Turn is the advisory lock of whoever commits.
func Turn(schema string) int64 { return newNames(schema).turn }

// Create is the advisory lock of whoever makes or upgrades the schema.
func Create(schema string) int64 { return newNames(schema).create }

// Listen is the advisory lock that listeners share.
func Listen(schema string) int64 { return newNames(schema).listen }
