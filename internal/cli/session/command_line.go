package session

import (
	"slices"

	"github.com/tasklock/tasklock/internal/cli/config"
	"github.com/tasklock/tasklock/internal/cli/term"
)

// CommandLine returns a tasklock command line to type. It repeats the caller's
// --owner and --store; only a password is left for the caller to fill in.
func (s *Session) CommandLine(args ...string) string {
	words := []string{"tasklock"}
	words = append(words, args...)
	var global []string
	if aboutItself(args) {
		return term.QuotedLine(words)
	}
	if s.StoreURL != "" {
		global = append(global, "--store", config.WithoutPassword(s.StoreURL))
	}
	if s.Owner != "" {
		global = append(global, "--owner", s.Owner)
	}
	if s.Timeout != "" {
		global = append(global, "--timeout", s.Timeout)
	}
	if s.UnsafeFS {
		global = append(global, "--allow-unsafe-fs")
	}
	end := slices.Index(words, "--")
	if end < 0 {
		end = len(words)
	}
	return term.QuotedLine(slices.Insert(words, end, global...))
}

// aboutItself reports whether a command asks no store and names no owner.
func aboutItself(args []string) bool {
	return args[0] == "version" || args[len(args)-1] == "--help" || len(args) > 1 && args[0] == "config" && args[1] == "set"
}
