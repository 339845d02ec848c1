package httpstore

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// A parcel is the body of a request. It knows whether anybody has begun to send it,
// which no error of package http says. It can be read once: a request that cannot be
// read again cannot be sent again.
type parcel struct {
	size int

	mu   sync.Mutex
	rest []byte
	left bool // somebody has begun to send it
	kept bool // nobody may begin any more
}

func newParcel(v any) *parcel {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return &parcel{size: len(b), rest: b}
}

var errKept = errors.New("the request was withdrawn")

// Read implements io.Reader, for the one who sends it.
func (p *parcel) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.left = !p.kept; {
	case p.kept:
		return 0, errKept
	case len(p.rest) == 0:
		return 0, io.EOF
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// keep makes sure that the parcel does not leave, and reports whether it is still
// here. A sender may be late: it outlives the call that gave up.
func (p *parcel) keep() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = !p.left
	return p.kept
}

// Close implements io.Closer.
func (p *parcel) Close() error { return nil }
