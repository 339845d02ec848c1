package driver

import "fmt"

// A Report is what a driver finds when it examines a store for a person who
// wants to know what is wrong with it.
type Report struct {
	Facts    string    // about the store, in one line
	Problems []string  // damage that leaves the rest readable
	Warnings []Warning // about what works and could be better

	// Of a store on a local disk.
	Path     string // the database or folder
	Bytes    int64  // of the records
	LogBytes int64  // of the log beside them
}

// A Warning has a command that helps.
type Warning struct{ Text, Remedy string }

// Warn adds a warning.
func (r *Report) Warn(remedy, format string, args ...any) {
	r.Warnings = append(r.Warnings, Warning{Text: fmt.Sprintf(format, args...), Remedy: remedy})
}
