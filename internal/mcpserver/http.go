package mcpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	srv := &http.Server{
		Handler:           s.Handler(o),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      maxWait + 30*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		s.stop() // calls that wait
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
		defer cancel()
		if srv.Shutdown(end) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(l)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Handler is the server behind everything that keeps strangers out. A page in
// a browser of this machine is a stranger: under DNS rebinding it has the right
// address and the wrong name, so the name is checked first, on every path.
func (s *Server) Handler(o HTTPOptions) http.Handler {
	tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.tools }, &mcp.StreamableHTTPOptions{
		Stateless: true, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // ours is stricter
	})
	mux := http.NewServeMux()
	mux.Handle(Path, limited(asJSON(withClient(tools))))
	return knownHost(o.Hosts, http.NewCrossOriginProtection().Handler(withKey(o.AccessKey, mux)))
}

func knownHost(names []string, next http.Handler) http.Handler {
	known := slices.Concat(names, []string{"localhost", "127.0.0.1", "::1"})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.ToLower(strings.Trim(host, "[]"))
		if !slices.Contains(known, host) || host == "" {
			http.Error(w, "this server does not have that name", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withKey compares digests, so that neither the length nor the beginning of the
// key shows in the time it takes.
func withKey(key string, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(key))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(given))
		if !strings.EqualFold(scheme, "Bearer") || key == "" || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "needs the access key of this server", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// limited refuses more than the server could serve at once.
func limited(next http.Handler) http.Handler {
	free := make(chan struct{}, maxCalls)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "too many calls at once", http.StatusServiceUnavailable)
		}
	})
}

// asJSON lets through what no page can send without asking first.
func asJSON(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "only POST", http.StatusMethodNotAllowed)
			return
		}
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withClient lets a call know that its client is gone, see clientOf.
func withClient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), clientKey{}, r.Context())))
	})
}
