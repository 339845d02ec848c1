package httpstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/tasklock/tasklock/internal/door"
)

// A line leads to a server.
type line struct {
	url       string
	key       string
	timeout   time.Duration
	transport *http.Transport
}

// idle is how many connections stay open for the next calls.
const idle = 64

// connect prepares a line. It asks nobody.
func (p *Place) connect(timeout time.Duration) (line, error) {
	key, err := p.key()
	if err != nil {
		return line{}, err
	}
	dialer := &net.Dialer{Timeout: timeout, KeepAlive: 15 * time.Second}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: timeout,
		MaxIdleConns:        idle, MaxIdleConnsPerHost: idle,
		IdleConnTimeout:    30 * time.Second, // before a balancer closes it
		DisableCompression: true,
	}
	if p.loopback {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return onlyHere(address) }
		return line{p.URL, key, timeout, t}, nil
	}
	if t.TLSClientConfig, err = p.tls(); err != nil {
		return line{}, err
	}
	t.ForceAttemptHTTP2 = true
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: timeout, PingTimeout: timeout}
	return line{p.URL, key, timeout, t}, nil
}

// errSilent ends a call that nobody answers.
var errSilent = errors.New("no answer in time")

// post sends a parcel and reads the answer. It goes around http.Client, which would
// follow redirects. The server may be silent for long and then for the timeout.
func (l *line) post(ctx context.Context, path string, p *parcel, long time.Duration, read func(*answer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(long+l.timeout, func() { cancel(errSilent) })
	defer watch.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+path, p)
	if err != nil {
		return err
	}
	req.ContentLength = int64(p.size)
	req.Header.Set("Content-Type", "application/json")
	if l.key != "" {
		req.Header.Set("Authorization", "Bearer "+l.key)
	}
	resp, err := l.transport.RoundTrip(req)
	if err != nil {
		return l.failed(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body := &heard{resp.Body, func() { watch.Reset(l.timeout) }}
	if resp.StatusCode != http.StatusOK || resp.Header.Get(door.Door) != door.Version {
		return fmt.Errorf("%s: %w", l.url, l.refused(resp, body))
	}
	a := &answer{lines: json.NewDecoder(body)}
	a.lines.DisallowUnknownFields()
	err = read(a)
	if a.failed != nil {
		return l.failed(ctx, a.failed)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", l.url, err)
	}
	_, _ = io.CopyN(io.Discard, body, 1<<10) // what was read to its end can be used again
	return err
}

// failed says why there was no answer.
func (l *line) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		err = cause
	}
	return fmt.Errorf("%s: %w", l.url, err)
}

// A heard body notes each sign of the server.
type heard struct {
	io.Reader
	note func()
}

func (h *heard) Read(b []byte) (int, error) {
	n, err := h.Reader.Read(b)
	if n > 0 {
		h.note()
	}
	return n, err
}

// An answer is the lines that a server sends.
type answer struct {
	lines  *json.Decoder
	failed error // the answer ended early, or is none
}

// next reads a line.
func (a *answer) next(into any) error {
	err := a.lines.Decode(into)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		a.failed = fmt.Errorf("the answer cannot be read: %w", err)
	}
	return a.failed
}
