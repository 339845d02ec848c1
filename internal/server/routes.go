package server

import (
	"net/http"
	"strings"
	"time"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/edge"
)

// ops are operations by method and path: "GET /v1/locks".
type ops map[string]operation

// table is all operations. Keys and owners have slashes, so they are in the query or
// the body, never in the path: a path is compared as a whole.
func (s *Server) table() map[string]map[string]operation {
	all := map[string]map[string]operation{}
	for _, some := range []ops{s.lockOps(), s.eventOps(), s.taskOps(), s.workOps(), s.keyOps(), s.storeOps()} {
		for name, o := range some {
			method, path, _ := strings.Cut(name, " ")
			if all[path] == nil {
				all[path] = map[string]operation{}
			}
			all[path][method] = o
		}
	}
	return all
}

func (s *Server) lockOps() ops {
	return ops{
		"GET /v1/locks":          op(access.Viewer, s.listLocks),
		"GET /v1/locks/show":     op(access.Viewer, s.showLock),
		"GET /v1/locks/check":    op(access.Viewer, s.checkLock),
		"GET /v1/locks/wait":     op(access.Viewer, s.waitForLock).waiting(),
		"POST /v1/locks/acquire": op(access.Worker, s.acquire).named().waiting(),
		"POST /v1/locks/renew":   op(access.Worker, s.renew),
		"POST /v1/locks/release": op(access.Worker, s.release),
		"POST /v1/locks/break":   op(access.Operator, s.breakLock).named(),
		"POST /v1/cleanup":       op(access.Operator, s.cleanup),
	}
}

func (s *Server) keyOps() ops {
	return ops{
		"GET /v1/keys":    op(access.Admin, s.listKeys),
		"POST /v1/keys":   op(access.Admin, s.addKey),
		"DELETE /v1/keys": op(access.Admin, s.revokeKey),
	}
}

// health answers those who ask whether the server lives, and whether it may get
// requests: without a key, under any name. It reports whether the path is one of them.
func (s *Server) health(w http.ResponseWriter, r *http.Request, path string) bool {
	path = strings.TrimPrefix(path, s.opt.Prefix) // a probe may come past the proxy
	if path != "/healthz" && path != "/readyz" {
		return false
	}
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		edge.Method(w, http.MethodGet, http.MethodHead)
	case path == "/readyz" && s.waits.Err() != nil:
		edge.Busy(w, http.StatusServiceUnavailable, "the server stops")
	case path == "/readyz" && time.Since(s.book.Seen()) > staleTime:
		edge.Busy(w, http.StatusServiceUnavailable, "the store does not answer")
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write([]byte("{\"ok\":true}\n"))
	}
	return true
}
