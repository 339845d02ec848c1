package cli

// InspectReport is what a driver can tell about its files when nobody may
// change them: the answer of App.Inspect. What a driver does not know stays
// empty.
type InspectReport struct {
	Path        string   // the database or folder
	FileSystem  string   // its kind, as the system names it
	SafeFS      bool     // its locks can be trusted
	JournalMode string   // how the database survives a crash
	Version     int      // of the driver's own format
	Bytes       int64    // of the records
	LogBytes    int64    // of the log beside them
	Problems    []string // damage that leaves the rest readable
	Facts       string   // of a server, in place of those above
	Warnings    []Warning
}

// A Warning is about something that works and could be better.
type Warning struct{ Text, Remedy string }
