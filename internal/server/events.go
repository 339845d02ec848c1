package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/tasklock/tasklock/internal/access"
	"github.com/tasklock/tasklock/internal/edge"
	"github.com/tasklock/tasklock/internal/lease"
)

// Events go by revision, as [lease.Watch] does: a client that has handled all events of
// a commit goes on after its revision, at any server on the same store.

const (
	defaultEvents = 100
	maxEvents     = 500
	maxStreams    = 32               // of one access key at a time
	pingEvery     = 15 * time.Second // proxies end silent connections
	retryAfter    = 2 * time.Second  // a client reconnects after that
	sendTime      = 30 * time.Second // for a client that does not read
)

func (s *Server) eventOps() ops {
	return ops{
		"GET /v1/events":        op(access.Viewer, s.events),
		"GET /v1/events/stream": operation{role: access.Viewer, waits: true, serve: (*Server).stream},
	}
}

type eventsInput struct {
	Since int64 `json:"since"` // a revision; 0: all that history has
	Limit int   `json:"limit"`
}

// Events are some of what happened after a revision, commits as a whole.
type Events struct {
	Events []lease.Event `json:"events"`
	Rev    int64         `json:"rev"`  // the next request has this as since
	Gap    bool          `json:"gap"`  // history no longer has all events before the first one here
	More   bool          `json:"more"` // there are more already
}

// events returns at least one commit, and at most limit events unless that one has more.
func (s *Server) events(ctx context.Context, _ Caller, in eventsInput) (Events, error) {
	out := Events{Events: []lease.Event{}, Rev: in.Since}
	if in.Limit == 0 {
		in.Limit = defaultEvents
	}
	if in.Since < 0 || in.Limit < 0 || in.Limit > maxEvents {
		return out, &lease.InvalidError{What: "since or limit", Rule: fmt.Sprintf("must not be negative, and limit at most %d", maxEvents)}
	}
	news, err := lease.EventsSince(ctx, s.st, in.Since)
	for _, g := range news.Groups {
		if n := len(out.Events); n > 0 && n+len(g.Events) > in.Limit {
			out.More = true
			break
		}
		out.Events, out.Rev, out.Gap = append(out.Events, g.Events...), g.Rev, out.Gap || g.Gap
	}
	return out, err
}

// stream sends events as they come, as server-sent events. Only the last event of a
// commit has an id, its revision: a client that is cut off repeats it and gets
// the next commit, and the whole of a commit of which it has only a part. If history
// no longer has what follows that revision, the first event is "reset".
func (s *Server) stream(w http.ResponseWriter, r *http.Request, c Caller) {
	since, err := sinceOf(r)
	if err != nil {
		edge.Refuse(w, http.StatusBadRequest, "INVALID_ARGUMENTS", err.Error())
		return
	}
	leave, ok := s.streams.enter(c.ID)
	if !ok {
		edge.Busy(w, http.StatusTooManyRequests, fmt.Sprintf("an access key may have %d streams", maxStreams))
		return
	}
	defer leave()
	out := newStream(w)
	if err := s.follow(r.Context(), out, since); err != nil && !out.begun {
		s.fail(w, r, err)
	} else if errors.Is(context.Cause(r.Context()), errStopping) {
		_ = out.send([]byte(": the server stops\nretry: 500\n\n"))
	}
}

// sinceOf is the revision that a client has seen. A browser that reconnects names it
// in a header, beside the query of its first request.
func sinceOf(r *http.Request) (int64, error) {
	var in struct {
		Since string `json:"since"`
	}
	if err := decodeQuery(r.URL.RawQuery, &in); err != nil {
		return 0, err
	}
	text := in.Since
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		text = id
	}
	if text == "" {
		return lease.FromNow, nil
	}
	since, err := strconv.ParseInt(text, 10, 64)
	if err != nil || since < 0 {
		return 0, errors.New("since and Last-Event-ID: must be a revision")
	}
	return since, nil
}

// follow sends what happens until ctx ends or the client does not read.
func (s *Server) follow(ctx context.Context, out *stream, since int64) error {
	hub, leave := s.hub.join()
	defer leave()
	news, err := s.first(ctx, since)
	if err != nil {
		return err
	}
	if err := out.send(fmt.Appendf(nil, "retry: %d\n\n", retryAfter.Milliseconds())); err != nil {
		return err
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		for _, g := range news.Groups {
			if err := out.send(encode(g)); err != nil {
				return err
			}
		}
		if news, err = s.next(ctx, hub, news.Rev, out, ping.C); err != nil {
			return err
		}
	}
}

// first is what happened after the revision that a client has seen.
func (s *Server) first(ctx context.Context, since int64) (lease.News, error) {
	news, err := lease.EventsSince(ctx, s.st, since)
	if ahead := (*lease.AheadError)(nil); errors.As(err, &ahead) { // of another store: the client begins anew
		return lease.News{Groups: []lease.Group{{Rev: ahead.Newest, Gap: true}}, Rev: ahead.Newest}, nil
	}
	return news, err
}

// next waits for what happens after a revision, and sends pings meanwhile. A stream that
// is too far behind the others looks for itself.
func (s *Server) next(ctx context.Context, w *watching, seen int64, out *stream, ping <-chan time.Time) (lease.News, error) {
	for {
		groups, whole, changed, err := w.after(seen)
		switch {
		case err != nil:
			return lease.News{}, err
		case len(groups) > 0:
			return lease.News{Groups: groups, Rev: groups[len(groups)-1].Rev}, nil
		case !whole && w.begun():
			return lease.EventsSince(ctx, s.st, seen)
		}
		select {
		case <-changed:
		case <-ping:
			if err := out.send([]byte(": ping\n\n")); err != nil {
				return lease.News{}, err
			}
		case <-ctx.Done():
			return lease.News{}, ctx.Err()
		}
	}
}

// encode writes a group as server-sent events.
func encode(g lease.Group) []byte {
	var b bytes.Buffer
	if g.Gap {
		fmt.Fprintf(&b, "event: reset\nid: %d\ndata: {\"rev\":%d}\n\n", g.Rev, g.Rev)
	}
	for i, e := range g.Events {
		if i == len(g.Events)-1 {
			fmt.Fprintf(&b, "id: %d\n", g.Rev)
		}
		data, _ := json.Marshal(e) // texts, numbers and a time; it has no line break
		fmt.Fprintf(&b, "data: %s\n\n", data)
	}
	return b.Bytes()
}

// A stream is an answer without an end.
type stream struct {
	w     http.ResponseWriter
	to    *http.ResponseController
	begun bool
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{w: w, to: http.NewResponseController(w)}
}

// send sends text at once. The time limits of other answers do not count.
func (s *stream) send(text []byte) error {
	if !s.begun {
		s.begun = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // nginx would collect it
		h.Set("X-Content-Type-Options", "nosniff")
		_ = s.to.SetReadDeadline(time.Time{})
		s.w.WriteHeader(http.StatusOK)
	}
	_ = s.to.SetWriteDeadline(time.Now().Add(sendTime))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.to.Flush()
}

// streams counts the streams of each access key.
type streams struct {
	mu sync.Mutex
	of map[string]int
}

// enter reports whether a key may have another stream.
func (s *streams) enter(key string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]int{}
	}
	if s.of[key] >= maxStreams {
		return nil, false
	}
	s.of[key]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.of[key]--; s.of[key] == 0 {
			delete(s.of, key)
		}
	}, true
}
