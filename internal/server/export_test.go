package server

import "github.com/tasklock/tasklock/internal/access"

// Roles is the role that each operation needs: "GET /v1/locks" → viewer.
func (s *Server) Roles() map[string]access.Role {
	out := map[string]access.Role{}
	for path, methods := range s.routes {
		for method, o := range methods {
			out[method+" "+path] = o.role
		}
	}
	return out
}
