package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/edge"
	"github.com/tasklock/tasklock/internal/lease"
	"github.com/tasklock/tasklock/internal/problem"
)

// Caller is who makes a request.
type Caller struct {
	access.Key // its role is enough for the operation

	Request string // the Idempotency-Key, or ""
}

// Holder is the owner under whose name a request takes something: each request is a
// child of its own, so clients that share an access key exclude each other.
func (c Caller) Holder() string { return c.Owner + "/" + c.Request }

// Holds reports whether a lease, by its full name, is below the caller's owner.
func (c Caller) Holds(lease string) bool { return strings.HasPrefix(lease, c.Owner+"/") }

// operation is what a method of a path does.
type operation struct {
	role  access.Role
	waits bool // it may wait, and ends its wait when the server stops
	serve func(s *Server, w http.ResponseWriter, r *http.Request, c Caller)
}

// op makes an operation of a function: its input is the JSON of the body or, without
// one, the query; its output is the JSON of the answer.
func op[In, Out any](role access.Role, do func(context.Context, Caller, In) (Out, error)) operation {
	return operation{role: role, serve: func(s *Server, w http.ResponseWriter, r *http.Request, c Caller) {
		var in In
		if !read(w, r, &in) {
			return
		}
		c.Request = r.Header.Get("Idempotency-Key")
		out, err := do(r.Context(), c, in)
		if err != nil {
			s.fail(w, r, err)
			return
		}
		answer(w, out)
	}}
}

// waiting is an operation that may wait.
func (o operation) waiting() operation {
	o.waits = true
	return o
}

// named is an operation that needs an Idempotency-Key: without one, nobody can repeat
// it after a lost reply.
func (o operation) named() operation {
	serve := o.serve
	o.serve = func(s *Server, w http.ResponseWriter, r *http.Request, c Caller) {
		if r.Header.Get("Idempotency-Key") == "" {
			edge.Refuse(w, http.StatusBadRequest, "INVALID_ARGUMENTS", "needs an Idempotency-Key of its own: "+requestRule)
			return
		}
		serve(s, w, r, c)
	}
	return o
}

const requestRule = "16 to 64 letters, digits, '-' or '_'; a repetition has the same one"

var requestForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{16,64}$`) })

// read reads the input of an operation, or refuses the request.
func read(w http.ResponseWriter, r *http.Request, in any) bool {
	if id := r.Header.Values("Idempotency-Key"); len(id) > 1 || len(id) == 1 && !requestForm().MatchString(id[0]) {
		edge.Refuse(w, http.StatusBadRequest, "INVALID_ARGUMENTS", "Idempotency-Key: "+requestRule)
		return false
	}
	var err error
	switch {
	case r.Method != http.MethodPost:
		err = decodeQuery(r.URL.RawQuery, in)
	case !edge.IsJSON(w, r):
		return false
	default:
		err = decodeBody(w, r, in)
	}
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		edge.Refuse(w, http.StatusRequestEntityTooLarge, "INVALID_ARGUMENTS", "the body is too large")
		return false
	}
	if err != nil {
		edge.Refuse(w, http.StatusBadRequest, "INVALID_ARGUMENTS", err.Error())
		return false
	}
	return true
}

// A result with a status of its own.
type withStatus interface{ status() int }

// answer sends a result.
func answer(w http.ResponseWriter, out any) {
	body, err := json.Marshal(out)
	if err != nil {
		edge.Refuse(w, http.StatusInternalServerError, "ERROR", "the result has no form in JSON")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	status := http.StatusOK
	if own, ok := out.(withStatus); ok {
		status = own.status()
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
}

// fail sends what an error means, by the one table of problems. A client learns
// nothing about the store from trouble that only its operator can end.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch cause := context.Cause(r.Context()); {
	case errors.Is(cause, context.Canceled): // the client is gone
		return
	case errors.Is(cause, access.ErrRevoked):
		edge.Unauthorized(w, "the access key was revoked or has expired")
		return
	case errors.Is(cause, errStopping):
		edge.Busy(w, http.StatusServiceUnavailable, "the server stops: repeat the request with the same Idempotency-Key")
		return
	}
	p := problem.Of(err, problem.Caller{})
	out := edge.Problem{Status: p.Status, Code: p.Code, Detail: p.Message, Details: p.Details, Next: p.Next}
	if p.Exit == problem.Usage {
		out.Next = "" // it is about flags
	}
	if held := (*lease.HeldError)(nil); errors.As(err, &held) || out.Status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	if out.Status >= http.StatusInternalServerError {
		s.opt.Note(r.Method + " " + r.URL.Path + ": " + p.Message)
		out.Detail, out.Details, out.Next = trouble(p), nil, ""
	}
	out.Write(w)
}

// trouble says what a client can do about a problem of the server.
func trouble(p problem.Problem) string {
	switch p.Exit {
	case problem.Unknown:
		if p.Code == "OUTCOME_UNKNOWN" {
			return "nobody knows whether it was done: repeat the request with the same Idempotency-Key"
		}
		return "the store cannot be reached now; nothing was changed: repeat the request"
	case problem.Setup:
		return "the store of this server cannot be used now"
	}
	return "the server could not do it; its log says why"
}

// methods are those of a path.
func methods(of map[string]operation) []string { return slices.Sorted(maps.Keys(of)) }
