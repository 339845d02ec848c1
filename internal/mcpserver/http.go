package mcpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tasklock/tasklock/internal/edge"
)

// HTTPOptions say who may talk to a server.
type HTTPOptions struct {
	AccessKey string   // every request has it as its bearer token
	Hosts     []string // names of this server beside localhost, 127.0.0.1 and [::1]
}

// Path is where the tools are.
const Path = "/mcp"

const (
	maxBody  = 1 << 20
	maxCalls = 256 // at one time
)

// ServeHTTP serves until ctx ends, and then lets the calls that are under way
// come to their end.
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, o HTTPOptions) error {
	return edge.Serve(ctx, edge.Server(s.Handler(o), maxWait), l, s.stop, releaseTime)
}

// Handler is the server behind everything that keeps strangers out, see package
// edge.
func (s *Server) Handler(o HTTPOptions) http.Handler {
	tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.tools }, &mcp.StreamableHTTPOptions{
		Stateless: true, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // ours is stricter
	})
	mux := http.NewServeMux()
	mux.Handle(Path, edge.Limited(maxCalls, asJSON(withClient(tools))))
	return edge.NewHosts(o.Hosts...).Guard(http.NewCrossOriginProtection().Handler(withKey(o.AccessKey, mux)))
}

// withKey compares digests, so that neither the length nor the beginning of the
// key shows in the time it takes.
func withKey(key string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(key))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := edge.Bearer(r)
		got := sha256.Sum256([]byte(given))
		if given == "" || key == "" || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			edge.Unauthorized(w, "needs the access key of this server")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// asJSON lets through what no page can send without asking first.
func asJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			edge.Method(w, http.MethodPost)
			return
		}
		if edge.IsJSON(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// withClient lets a call know that its client is gone, see clientOf.
func withClient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, r.Context())))
	})
}
