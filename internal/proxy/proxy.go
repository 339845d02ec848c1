// Package proxy is a bad network between a client and one server, for the
// tests of drivers that talk to one: delay, cut connections, silence in both
// directions or in one, and the worst of them, a connection that is cut after
// the server has done its work and before the client hears of it.
//
// A proxy starts healthy. What is set applies at once, to the connections that
// are there and to new ones, until [Proxy.Heal].
package proxy

import (
	"io"
	"net"
	"sync"
	"time"
)

// A Direction is one way through the proxy, or both.
type Direction int

// The directions. Both is ToServer|ToClient.
const (
	ToServer Direction = 1 << iota
	ToClient
	Both = ToServer | ToClient
)

// A Proxy listens on a port of its own and passes on what it gets.
type Proxy struct {
	listener net.Listener
	network  string
	target   string
	work     sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when one of the following changes
	closed  bool
	refuse  bool
	delay   time.Duration
	hole    Direction
	trap    *trap
	links   map[*link]bool
}

// A trap waits for one answer.
type trap struct {
	request, answer func([]byte) bool
	sprung          chan struct{}
}

// New starts a proxy in front of the server at target: "host:port" or, with a
// slash, the path of a Unix socket.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		listener: l, network: "tcp", target: target,
		changed: make(chan struct{}), links: map[*link]bool{},
	}
	if len(target) > 0 && target[0] == '/' {
		p.network = "unix"
	}
	p.work.Go(p.serve)
	return p, nil
}

// Addr is where clients connect, as host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() {
	p.change(func() { p.closed = true })
	_ = p.listener.Close()
	p.Cut()
	p.work.Wait()
}

// Heal ends every fault. Connections that were in a black hole go on where
// they were: nothing that TCP has accepted is lost.
func (p *Proxy) Heal() {
	p.change(func() { p.refuse, p.delay, p.hole, p.trap = false, 0, 0, nil })
}

// Delay holds back everything for d, in each direction.
func (p *Proxy) Delay(d time.Duration) { p.change(func() { p.delay = d }) }

// BlackHole lets nothing through in that direction, and closes nothing either.
// New connections are accepted and hear nothing.
func (p *Proxy) BlackHole(d Direction) { p.change(func() { p.hole = d }) }

// Refuse closes new connections at once.
func (p *Proxy) Refuse() { p.change(func() { p.refuse = true }) }

// Cut resets all connections that are there.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// CutAnswer cuts one connection after its server has begun to answer and
// before the client hears of it: the first on which the client sent something
// that request accepts and the server then something that answer accepts. Nil
// accepts everything. They are given what came in one read. The channel is
// closed when it has happened.
func (p *Proxy) CutAnswer(request, answer func([]byte) bool) <-chan struct{} {
	t := &trap{request: request, answer: answer, sprung: make(chan struct{})}
	p.change(func() { p.trap = t })
	return t.sprung
}

// Connections is how many there are now.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() { p.connect(client) })
	}
}

// connect passes on one connection until it ends. A client that comes while
// nothing gets through to the server is connected to it later.
func (p *Proxy) connect(client net.Conn) {
	l := &link{client: client, gone: make(chan struct{})}
	defer l.cut()
	p.mu.Lock()
	refused := p.refuse || p.closed
	p.links[l] = !refused
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.links, l)
		p.mu.Unlock()
	}()
	if refused || !p.pass(l, ToServer) {
		return
	}
	server, err := net.DialTimeout(p.network, p.target, 5*time.Second)
	if err != nil || !l.reach(server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(l, server, client, ToServer) })
	both.Go(func() { p.copy(l, client, server, ToClient) })
	both.Wait()
}

// copy passes on one direction of a connection. When its source ends in an
// orderly way so does its destination, else both are cut.
func (p *Proxy) copy(l *link, to, from net.Conn, d Direction) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if p.trapped(l, buf[:n], d) || !p.pass(l, d) {
				l.cut()
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				l.cut()
				return
			}
		}
		if err == io.EOF && p.pass(l, d) {
			if half, ok := to.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
				return
			}
		}
		if err != nil {
			l.cut()
			return
		}
	}
}

// pass waits until something may go through, and reports whether it still
// can.
func (p *Proxy) pass(l *link, d Direction) bool {
	delayed := false
	for {
		p.mu.Lock()
		changed, delay, hole := p.changed, p.delay, p.hole&d != 0
		p.mu.Unlock()
		if !hole && (delay == 0 || delayed) {
			return !l.isCut()
		}
		var later <-chan time.Time
		if !hole {
			later = time.After(delay)
		}
		select {
		case <-changed:
		case <-later:
			delayed = true
		case <-l.gone:
			return false
		}
	}
}

// trapped reports whether this is the answer that must not arrive.
func (p *Proxy) trapped(l *link, data []byte, d Direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.trap
	switch {
	case t == nil:
		return false
	case d == ToServer:
		if t.request == nil || t.request(data) {
			l.asked = t
		}
		return false
	case l.asked != t || t.answer != nil && !t.answer(data):
		return false
	}
	p.trap = nil
	close(t.sprung)
	return true
}

// A link is one connection through the proxy.
type link struct {
	client net.Conn
	asked  *trap // what its client asked for; under Proxy.mu

	mu     sync.Mutex
	server net.Conn
	gone   chan struct{} // closed when it is cut
}

// reach adds the connection to the server, unless the link is cut already.
func (l *link) reach(server net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut() {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

func (l *link) isCut() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// cut resets both sides, so that neither takes it for an orderly end.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCut() {
		return
	}
	close(l.gone)
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		if c != nil {
			_ = c.Close()
		}
	}
}
