// Package holder holds leases for clients that are not this process: the
// program at the other end of a pipe, or the clients of a server.
//
// A wait ends when its client leaves. A granted lease stays, whichever call
// acquired it, until the client releases it or the holder closes. The holder
// releases a lease at once if it cannot hand it to its client.
package holder

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/tasklock/tasklock/internal/lease"
)

// Holder holds any number of leases. The zero value holds none.
type Holder struct {
	mu   sync.Mutex
	held map[*lease.Lease]bool
}

// Take runs take for a client and hands over the lease that it returns, if any.
// The end of client ends the wait, but not the lease. If the client has left, or
// hand fails, Take releases the lease and returns the error.
func (h *Holder) Take(client context.Context, take func(context.Context) (*lease.Lease, error), hand func(*lease.Lease) error) error {
	wait, end := context.WithCancelCause(context.WithoutCancel(client))
	granted := context.AfterFunc(client, func() { end(context.Cause(client)) })
	l, err := take(wait)
	granted()
	if err != nil || l == nil {
		end(nil)
		return err
	}
	h.hold(l)
	if err = client.Err(); err == nil {
		err = hand(l)
	}
	if err != nil {
		_ = l.Release(client)
	}
	return err
}

// hold remembers a lease until it is released or lost.
func (h *Holder) hold(l *lease.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[*lease.Lease]bool{}
	}
	h.held[l] = true
	context.AfterFunc(l.Context(), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.held, l)
	})
}

// Close releases every lease that is still held. A lost one is not an error.
func (h *Holder) Close(ctx context.Context) error {
	h.mu.Lock()
	held := slices.Collect(maps.Keys(h.held))
	h.mu.Unlock()
	var errs []error
	for _, l := range held {
		if err := l.Release(ctx); err != nil && !errors.Is(err, lease.ErrLost) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
