package server

import (
	"net/http"
	"strings"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/door"
	"github.com/tasklock/tasklock/internal/edge"
)

// storeOps are the store itself, for keys of role peer.
func (s *Server) storeOps() ops {
	if s.opt.Peers == nil {
		return nil
	}
	h := http.StripPrefix(s.opt.Prefix, door.Handler(s.opt.Peers))
	o := operation{role: access.Peer, serve: func(_ *Server, w http.ResponseWriter, r *http.Request, _ Caller) {
		if edge.IsJSON(w, r) {
			h.ServeHTTP(w, r)
		}
	}}
	return ops{"POST " + door.ReadPath: o, "POST " + door.CommitPath: o, "POST " + door.WaitPath: o.waiting()}
}

// untouched marks each answer to a peer as one of which the store knows nothing. The
// store removes the mark from its own.
func untouched(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/v1/store/") {
			w.Header().Set(door.Untouched, "true")
		}
		next.ServeHTTP(w, r)
	})
}
