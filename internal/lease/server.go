package lease

import "strings"

// serverMark begins the name of a server that holds for the owner before it.
const serverMark = "/mcp-"

// ServerMark turns an owner's name into that of a server which holds locks for it.
// Its holders are children of this name: they exclude each other, whichever client
// asks the server.
func ServerMark() string { return serverMark + NewID() }

// Serves reports whether holder holds through a server for an owner whose locks
// the caller may use. A session that locks files through its server may change
// these files.
func Serves(holder, caller string) bool {
	for i := range holder {
		if i > 0 && strings.HasPrefix(holder[i:], serverMark) && MayUse(caller, holder[:i]) {
			return true
		}
	}
	return false
}
