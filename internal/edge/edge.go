// Package edge keeps strangers out of an HTTP server. The server of operations and
// that of the Model Context Protocol stand behind it.
//
// A page in a browser of this machine is a stranger: under DNS rebinding it has the
// right address and the wrong name, so the name is checked on every path. What a
// page can send without asking first is not JSON.
package edge

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Problem is the answer to a request that failed: RFC 9457, with the members that
// --json prints.
type Problem struct {
	Title   string         `json:"title"`
	Status  int            `json:"status"`
	Detail  string         `json:"detail"`
	Code    string         `json:"code"`
	Details map[string]any `json:"details,omitempty"`
	Next    string         `json:"next,omitempty"`
}

// Write sends the problem.
func (p Problem) Write(w http.ResponseWriter) {
	p.Title = http.StatusText(p.Status)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client may be gone
}

// Refuse sends a problem without further facts.
func Refuse(w http.ResponseWriter, status int, code, detail string) {
	Problem{Status: status, Code: code, Detail: detail}.Write(w)
}

// Unauthorized asks for an access key.
func Unauthorized(w http.ResponseWriter, detail string) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	Refuse(w, http.StatusUnauthorized, "UNAUTHORIZED", detail)
}

// Busy refuses for now.
func Busy(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Retry-After", "1")
	Refuse(w, status, "TOO_MANY_REQUESTS", detail)
}

// Bearer is the access key of a request, or "".
func Bearer(r *http.Request) string {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return key
}

// Hosts are the names of a server.
type Hosts []string

// NewHosts are localhost and these names. An address that means every interface is
// not a name.
func NewHosts(names ...string) Hosts {
	all := Hosts{"localhost", "127.0.0.1", "::1"}
	for _, name := range names {
		if name = bare(name); name != "" && !net.ParseIP(name).IsUnspecified() {
			all = append(all, name)
		}
	}
	return all
}

// Know reports whether the request was sent to one of the names.
func (h Hosts) Know(r *http.Request) bool { return slices.Contains(h, bare(r.Host)) }

// Guard refuses requests for another name.
func (h Hosts) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.Know(r) {
			RefuseHost(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// RefuseHost refuses a request for another server.
func RefuseHost(w http.ResponseWriter) {
	Refuse(w, http.StatusForbidden, "UNKNOWN_HOST", "this server does not have that name; --allow-host gives it one")
}

// bare is a host without port and brackets.
func bare(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// Limited refuses more requests than a server could serve at once.
func Limited(most int, next http.Handler) http.Handler {
	free := make(chan struct{}, most)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case free <- struct{}{}:
			defer func() { <-free }()
			next.ServeHTTP(w, r)
		default:
			Busy(w, http.StatusServiceUnavailable, "too many calls at once")
		}
	})
}

// IsJSON reports whether the body is plain JSON, which no page can send without
// asking first, and refuses it otherwise.
func IsJSON(w http.ResponseWriter, r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if coding := r.Header.Get("Content-Encoding"); err != nil || kind != "application/json" || coding != "" && coding != "identity" {
		Refuse(w, http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "Content-Type must be application/json, without a Content-Encoding")
		return false
	}
	return true
}

// Method refuses a method that the path does not have.
func Method(w http.ResponseWriter, allowed ...string) {
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	Refuse(w, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "only "+strings.Join(allowed, ", "))
}

// Server is a server that gives up slow clients. No answer takes longer than that.
func Server(h http.Handler, longest time.Duration) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      longest + 30*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
}

// Serve serves until ctx ends. Then it calls stop, which ends the requests that wait,
// and gives those that are under way some time.
func Serve(ctx context.Context, srv *http.Server, l net.Listener, stop func(), grace time.Duration) error {
	stopped := make(chan struct{})
	keep := context.AfterFunc(ctx, func() {
		defer close(stopped)
		stop()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if srv.Shutdown(end) != nil {
			_ = srv.Close()
		}
	})
	err := srv.Serve(l)
	if !keep() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
