package host

// Writable cannot be asked without trying: access lists decide.
func Writable(string) error { return nil }
