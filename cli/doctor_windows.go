package cli

// writable cannot be asked without trying: access lists decide.
func writable(string) error { return nil }
