package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

// A model is what the harnesses take for one: a server on loopback that speaks
// their protocols. It thinks nothing: whoever asks is known by a mark in its
// prompt, and gets the answer that the script has for that name.
type model struct {
	url string

	mu       sync.Mutex
	talks    map[string]*talk
	strange  []string // requests that no protocol here knows
	outside  []string // hosts that a harness wanted to reach
	requests int
	log      io.Writer // every request as it came; nil: none
}

// A talk is one conversation: of a session, or of a subagent.
type talk struct {
	asked  chan turn
	answer chan answer
}

// A turn is what the model is shown: the results of its last calls, and the names
// of the tools that it has.
type turn struct {
	results []string
	tools   []tool
}

// A tool is one that a harness offers. In some protocols it is in a namespace, and
// some take free text.
type tool struct {
	name, space string
	free        bool
}

// An answer calls tools; without one, it is the model's last word.
type answer struct {
	calls []toolCall
}

type toolCall struct {
	tool
	input map[string]any
	text  string // of a tool that takes free text
}

// A protocol is how a harness talks to its model.
type protocol struct {
	path  *regexp.Regexp
	read  func(body []byte) (request, error)
	write func(w http.ResponseWriter, r *http.Request, q request, a answer)
}

// A request is what all protocols say.
type request struct {
	turn
	prompts []string // what the user says, in order
	stream  bool
	model   string
}

func serveModel() (*model, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &model{url: "http://" + l.Addr().String(), talks: map[string]*talk{}}
	go func() { _ = http.Serve(l, m) }() // until the process ends
	return m, nil
}

// talk is the conversation of that name.
func (m *model) talk(who string) *talk {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.talks[who]
	if t == nil {
		t = &talk{asked: make(chan turn, 16), answer: make(chan answer)}
		m.talks[who] = t
	}
	return t
}

// forget ends all conversations.
func (m *model) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.talks, m.strange, m.outside, m.requests = map[string]*talk{}, nil, nil, 0
}

// next waits for what the harness shows the model.
func (t *talk) next(ctx context.Context) (turn, error) {
	select {
	case asked := <-t.asked:
		return asked, nil
	case <-ctx.Done():
		return turn{}, context.Cause(ctx)
	}
}

func (t *talk) say(ctx context.Context, a answer) error {
	select {
	case t.answer <- a:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mark makes a prompt that tells the model who asks.
func mark(who string) string { return "Do what the script of @@" + who + "@@ says." }

var marked = regexp.MustCompile(`@@([a-z0-9]+)@@`)

// who is the first that the user's words name.
func (q request) who() string {
	for _, text := range q.prompts {
		if found := marked.FindStringSubmatch(text); found != nil {
			return found[1]
		}
	}
	return ""
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect || r.URL.IsAbs() {
		m.note(&m.outside, r.Host)
		http.Error(w, "there is no other network here", http.StatusForbidden)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.record(r, body)
	for _, p := range protocols {
		if r.Method == http.MethodPost && p.path.MatchString(r.URL.Path) {
			q, err := p.read(body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			m.serve(w, r, p, q)
			return
		}
	}
	m.note(&m.strange, r.Method+" "+r.URL.Path)
	http.NotFound(w, r)
}

// serve answers as the script says. What has no tools, or no mark, is a question
// of the harness itself: for a title, say.
func (m *model) serve(w http.ResponseWriter, r *http.Request, p protocol, q request) {
	who := q.who()
	if who == "" || len(q.tools) == 0 {
		p.write(w, r, q, answer{})
		return
	}
	t := m.talk(who)
	select {
	case t.asked <- q.turn:
	case <-r.Context().Done():
		return
	}
	select {
	case a := <-t.answer:
		p.write(w, r, q, a)
	case <-r.Context().Done():
	}
}

func (m *model) note(list *[]string, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*list = append(*list, what)
}

func (m *model) record(r *http.Request, body []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests++
	if m.log != nil {
		_, _ = fmt.Fprintf(m.log, "%s %s\n%s\n\n", r.Method, r.URL, body)
	}
}

// texts are the texts in a value that is a text, an object with a text, or a list
// of them.
func texts(raw json.RawMessage) (out []string) {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []string{s}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		for _, item := range list {
			out = append(out, texts(item)...)
		}
		return out
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) == nil {
		for _, key := range []string{"text", "output", "content"} {
			if in, ok := object[key]; ok {
				out = append(out, texts(in)...)
			}
		}
	}
	return out
}

func text(raw json.RawMessage) string { return strings.Join(texts(raw), "\n") }

// events writes a stream of server-sent events.
type events struct{ w http.ResponseWriter }

func startEvents(w http.ResponseWriter) events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	return events{w}
}

func (e events) send(name string, data any) {
	b, _ := json.Marshal(data) // maps and texts
	if name != "" {
		_, _ = fmt.Fprintf(e.w, "event: %s\n", name)
	}
	_, _ = fmt.Fprintf(e.w, "data: %s\n\n", b)
	if f, ok := e.w.(http.Flusher); ok {
		f.Flush()
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
