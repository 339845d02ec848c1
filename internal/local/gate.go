package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A Gate lets one caller on the machine through at a time, in roughly the order
// of their arrival: callers sleep in the kernel instead of polling, so that
// nobody starves. Its file is never removed, because two processes with two
// files of one name would both be through.
type Gate struct {
	slot chan struct{} // held by the caller that is through or next

	mu     sync.Mutex // protects the fields below; the file, while nobody waits
	file   lockFile
	wait   *wait // the one wait in the kernel, if any
	held   bool
	closed bool
}

// A wait outlives the caller that began it, because the kernel offers no way
// to leave: the next caller takes it over. If none comes, the wait opens the
// gate again as soon as it is through.
type wait struct {
	wanted bool
	done   chan struct{}
	err    error
}

var errGateClosed = errors.New("gate is closed")

// NewGate returns a gate at path. The file is made at the first Lock.
func NewGate(path string) *Gate {
	return &Gate{file: lockFile{path: path}, slot: make(chan struct{}, 1)}
}

// Lock waits until the caller is through, or ctx ends.
func (g *Gate) Lock(ctx context.Context) error {
	select {
	case g.slot <- struct{}{}:
	default:
		select {
		case g.slot <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := g.lock(ctx); err != nil {
		<-g.slot
		return err
	}
	return nil
}

// TryLock goes through if the gate is free, and reports whether it did.
func (g *Gate) TryLock() bool {
	select {
	case g.slot <- struct{}{}:
	default:
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed && g.wait == nil {
		if held, err := g.file.lock(false); held && err == nil {
			g.held = true
			return true
		}
	}
	<-g.slot
	return false
}

// Unlock lets the next caller through.
func (g *Gate) Unlock() {
	g.mu.Lock()
	g.release()
	g.mu.Unlock()
	<-g.slot
}

// Close ends the use of the gate. It does not wait: an abandoned wait stays in
// the kernel until the present holder is done.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if g.wait == nil && !g.held {
		g.file.close()
	}
}

func (g *Gate) lock(ctx context.Context) error {
	w, err := g.enter()
	if w == nil {
		return err
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	w.wanted = false
	select {
	case <-w.done: // through at the same moment
		if w.err == nil {
			g.release()
		}
	default:
	}
	return ctx.Err()
}

// enter goes through at once if the gate is free, and otherwise returns the
// wait to join.
func (g *Gate) enter() (*wait, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, errGateClosed
	}
	if g.wait == nil {
		var err error
		if g.held, err = g.file.lock(false); g.held || err != nil {
			return nil, g.named(err)
		}
		g.wait = &wait{done: make(chan struct{})}
		go g.sleep(g.wait)
	}
	g.wait.wanted = true
	return g.wait, nil
}

// sleep waits in the kernel for the caller that wants the gate by then.
func (g *Gate) sleep(w *wait) {
	held, err := g.file.lock(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.wait, g.held, w.err = nil, held, g.named(err)
	if held && !w.wanted {
		g.release()
	}
	close(w.done)
}

func (g *Gate) release() {
	g.file.unlock()
	g.held = false
	if g.closed {
		g.file.close()
	}
}

func (g *Gate) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("gate %s: %w", g.file.path, denied(err))
}
