package session

import (
	"runtime/debug"
)

// ProgramVersion is what version prints.
func (s *Session) ProgramVersion() string {
	if s.Version != "" {
		return s.Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
