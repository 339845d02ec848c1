package worker

import (
	"bytes"
	"io"
	"strings"
)

// lateReader is an input whose text is known only after the command has begun to
// read it.
type lateReader struct {
	ready chan struct{}
	text  *bytes.Reader
}

func (r *lateReader) open(text []byte) {
	if r != nil {
		r.text = bytes.NewReader(text)
		close(r.ready)
	}
}

func (r *lateReader) Read(p []byte) (int, error) {
	<-r.ready
	return r.text.Read(p)
}

// tail passes output on and keeps the end of it.
type tail struct {
	to   io.Writer
	last []byte
}

const maxSummary = 1024

func (t *tail) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	if over := len(t.last) - maxSummary; over > 0 {
		t.last = t.last[over:]
	}
	if t.to == nil {
		return len(p), nil
	}
	return t.to.Write(p)
}

func (t *tail) String() string {
	if t == nil {
		return ""
	}
	s := strings.ToValidUTF8(strings.ReplaceAll(string(t.last), "\x00", ""), "")
	if len(t.last) == maxSummary {
		if _, rest, ok := strings.Cut(s, "\n"); ok && strings.TrimSpace(rest) != "" {
			s = rest
		}
	}
	return strings.TrimSpace(s)
}
